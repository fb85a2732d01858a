"""The forward pass: attention over shared prefixes, its cache, and drawing beside the logits."""
