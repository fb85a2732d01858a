"""Tasks with their ground truth."""
