"""The offline planner: it reads a task by a grammar, and emits the program that it means."""
