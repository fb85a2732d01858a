"""One run of one program: its particles, where they run, and what comes back."""
