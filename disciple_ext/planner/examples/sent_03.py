"""Please generate a sentence:
1) with at least 14 words;
2) with all words having at most 6 characters."""


class InferenceModel(BaseModel):
    """A sentence of at least 14 words, none of them longer than 6 characters."""

    def __init__(self, context, max_tokens=128):
        super().__init__(context=context, max_tokens=max_tokens)

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        """Step: a word.

        Strategy: from the 14th word on the sentence ends where the Follower wants a mark, and
        after 30 words at the latest.
        """
        await self.next_word(max_chars=6, capital=not self.text)
        count = len(self.words)
        if count == 30 or (count >= 14 and await self.wants(".!?")):
            await self.end_sentence()
            await self.end()

    def check(self, text):
        words = units.words(text)
        return len(words) >= 14 and all(len(word) <= 6 for word in words)
