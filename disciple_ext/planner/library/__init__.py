"""Programs that passed, kept for tasks like theirs."""
