"""What counts as a character, word, sentence, line and paragraph. It needs nothing but Python."""
