"""Followers from GGUF files: weights, tokenizer and chat template in one file.

``header.py`` reads what stands before the weights, ``checks.py`` says what is wrong with it, in
words that help, and ``load.py`` has transformers make the model.
"""
