"""A haiku by its syllables: an ordinary LLaMPPL model on the embedded follower.

Run it with: python examples/llamppl/haiku.py (some seconds). For full speed change one import:
`from disciple_ext import FollowerContext as LMContext`.
"""

import asyncio
import re

import numpy as np
from llamppl import LMContext, Model, smc_standard, submodel

from disciple_ext import FollowerLM


def syllables(word):
    """Syllables of an English word, roughly: groups of vowels, but for a silent e."""
    word = word.strip().lower()
    groups = len(re.findall(r"[aeiouy]+", word))
    silent = re.search(r"[^aeiouyl]e$", word) is not None and groups > 1
    return max(1, groups - silent)


@submodel
async def sample_word(self, context, begins_line, max_tokens=4):
    """A word of letters, and perhaps a mark after it."""
    masks, texts = context.lm.masks, context.lm.str_vocab
    begins = masks.CONTINUES_CURRENT_WORD if begins_line else masks.STARTS_NEW_WORD
    await self.observe(context.mask_dist(begins), True)
    word, mark = "", ""
    for left in reversed(range(max_tokens)):
        word += texts[(await self.sample(context.next_token())).token_id]
        more = context.mask_dist(masks.CONTINUES_CURRENT_WORD)
        if left == 0:
            await self.observe(more, False)
        elif not await self.sample(more):
            break
    if await self.sample(context.mask_dist(masks.PUNCTUATION)):
        mark = texts[(await self.sample(context.next_token())).token_id]
    return word, mark


class Haiku(Model):
    """Lines of words with given numbers of syllables."""

    def __init__(self, lm, prompt, lines=(5, 7, 5)):
        """Open the context."""
        super().__init__()
        self.context = LMContext(lm, prompt)
        self.newline = lm.tokenizer.encode("\n", add_special_tokens=False)
        self.lines = list(lines)
        self.text = ""

    async def step(self):
        """Write one word that the line has room for."""
        begins_line = self.text[-1:] in ("", "\n")
        word, mark = await self.call(sample_word(self.context, begins_line))
        self.text += word + mark
        self.lines[0] -= syllables(word)
        self.condition(self.lines[0] >= 0)
        if self.lines[0] == 0:
            self.lines.pop(0)
            if not self.lines:
                self.finish()
                return
            for token in self.newline:
                await self.intervene(self.context.next_token(), token)
            self.text += "\n"

    def __str__(self):
        return self.text


async def main():
    """Write haiku, and show the one with the most weight."""
    lm = FollowerLM.from_pretrained("embedded")
    particles = await smc_standard(Haiku(lm, "A short poem about the winter sea.\n"), 24)
    print(max(particles, key=lambda p: p.weight))


if __name__ == "__main__":
    np.random.seed(1)
    asyncio.run(main())
