"""The outer loop: plan, run, and tell the planner what went wrong (Algorithm 1 of the paper)."""
