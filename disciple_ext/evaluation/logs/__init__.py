"""What an evaluation keeps on disk."""
