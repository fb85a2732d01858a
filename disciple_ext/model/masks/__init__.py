"""Masks: which tokens may come next, from a few characters to whole grammars."""
