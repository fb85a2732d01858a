"""Please generate a paragraph:
1) with exactly 3 sentences;
2) not containing the word 'the';
3) not containing the word 'and';
4) not containing the word 'of'."""


class InferenceModel(BaseModel):
    """A paragraph of three sentences without three very common words."""

    def __init__(self, context, max_tokens=300):
        super().__init__(context=context, max_tokens=max_tokens)
        self.banned = ("the", "and", "of")
        self.sentences = 0

    @classmethod
    def prior_prompt(cls):
        return "Write a paragraph."

    @classmethod
    def proposal_prompt(cls):
        return "Write a paragraph with 3 sentences."

    async def step(self):
        """Step: a sentence. The banned words are masked, in any case of letters."""
        await self.next_sentence(min_words=4, max_words=30, avoid=self.banned)
        self.sentences += 1
        if self.sentences == 3:
            await self.end()

    def check(self, text):
        words = units.words(text)
        return len(units.sentences(text)) == 3 and not any(
            units.same_word(banned, word) for banned in self.banned for word in words
        )
