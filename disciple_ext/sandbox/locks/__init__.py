"""What the operating system is asked to deny, and the proof that it does."""
