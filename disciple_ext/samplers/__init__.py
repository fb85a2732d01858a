"""Inference algorithms over particles."""
