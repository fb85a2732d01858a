"""The static check: mistakes that a program's text shows. It is no boundary."""
