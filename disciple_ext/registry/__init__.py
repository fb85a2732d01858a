"""Plugins: the hooks, what each must keep to, and what they registered."""
