"""The host's side of the sandbox: zygotes, workers, and one session for each run."""
