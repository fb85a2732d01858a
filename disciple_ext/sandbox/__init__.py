"""From a program's source to a running program."""
