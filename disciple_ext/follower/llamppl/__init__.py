"""LLaMPPL's own language-model interface over a follower."""
