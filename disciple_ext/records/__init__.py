"""Plain data: tasks, programs, results, and the events of a run."""
