"""What a log says: Pass@1, intervals, quality, comparisons."""
