"""Planners that are chat models: prompts, endpoints, and what their answers are worth."""
