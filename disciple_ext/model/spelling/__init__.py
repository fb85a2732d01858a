"""Text drawn by the character, over a model that speaks in tokens."""
