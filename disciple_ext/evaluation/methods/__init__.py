"""Ways to a text for a task: samplers, the follower alone, the planner alone."""
