"""Words of at most five letters: an ordinary LLaMPPL model on the embedded follower.

Run it with: python examples/llamppl/five_letters.py (some seconds). For full speed change one
import: `from disciple_ext import FollowerContext as LMContext`.
"""

import asyncio
from functools import cache

import numpy as np
from llamppl import LMContext, Model, smc_standard

from disciple_ext import FollowerLM


class FiveLetters(Model):
    """A text whose words have at most five letters, up to its end or a number of tokens."""

    def __init__(self, lm, prompt, max_tokens):
        """Open the context."""
        super().__init__()
        self.lm = lm
        self.context = LMContext(lm, prompt)
        self.tokens_left = max_tokens
        self.text = ""

    async def step(self):
        """Write one token that makes no word longer than five letters, or end."""
        allowed = short_words(self.lm, letters_at_the_end(self.text))
        await self.observe(self.context.mask_dist(allowed), True)
        token = await self.sample(self.context.next_token())
        self.tokens_left -= 1
        if token == self.lm.tokenizer.eos_token_id:
            self.finish()
            return
        self.text += self.lm.str_vocab[token.token_id]
        if self.tokens_left == 0:
            self.finish()

    def __str__(self):
        return self.text


def letters_at_the_end(text):
    """Letters of the word that the text ends in."""
    return len(text) - len(text.rstrip("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"))


@cache
def short_words(lm, begun):
    """Tokens that leave every word at five letters or fewer, and the end of the text."""
    special = set(lm.tokenizer.all_special_ids)
    good = {i for i, text in enumerate(lm.str_vocab) if i not in special and fits(text, begun)}
    return good | lm.masks.EOS


def fits(text, begun):
    """Whether no word of a token's text is too long, after some letters."""
    run = begun
    for char in text:
        run = run + 1 if char.isalpha() else 0
        if run > 5 or not char.isascii():
            return False
    return True


async def main():
    """Write eight texts, and show them with their shares of the weight."""
    lm = FollowerLM.from_pretrained("embedded")
    particles = await smc_standard(FiveLetters(lm, "The old man by the sea", 16), 8)
    weights = np.exp([p.weight - max(q.weight for q in particles) for p in particles])
    for weight, particle in zip(weights / weights.sum(), particles, strict=True):
        print(f"{weight:.3f}  {particle}")


if __name__ == "__main__":
    np.random.seed(1)
    asyncio.run(main())
