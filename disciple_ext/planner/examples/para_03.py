"""Please generate a paragraph:
1) with exactly 3 sentences;
2) with all sentences having at least 9 words;
3) with all sentences having at most 12 words."""


class InferenceModel(BaseModel):
    """A paragraph of three sentences of 9 to 12 words."""

    def __init__(self, context, max_tokens=200):
        super().__init__(context=context, max_tokens=max_tokens)
        self.sentences = 0

    @classmethod
    def prior_prompt(cls):
        return "Write a paragraph."

    @classmethod
    def proposal_prompt(cls):
        return "Write a paragraph with 3 sentences of 9 to 12 words."

    async def step(self):
        """Step: a sentence. Within the bounds it ends where the Follower wants a mark."""
        await self.next_sentence(min_words=9, max_words=12)
        self.sentences += 1
        if self.sentences == 3:
            await self.end()

    def check(self, text):
        lengths = [len(units.words(sentence)) for sentence in units.sentences(text)]
        return len(lengths) == 3 and all(9 <= length <= 12 for length in lengths)
