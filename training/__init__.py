"""Training of the embedded Follower: tokenizer, chat examples, loop and report.

Nothing here is needed at run time. The steps, in order, are the modules
``tokenizer`` (learn the vocabulary), ``data`` (corpus to packed shards), ``train`` (the loop),
``export`` (checkpoint to a Hugging Face directory) and ``report`` (figures of the model card).
"""
