"""Benchmarks: ratios measured in one run, so that they mean something on any machine."""
