"""COLLIE, PUZZLES, baselines and metrics."""
