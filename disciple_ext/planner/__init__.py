"""From a task, and what went wrong before, to a program."""
