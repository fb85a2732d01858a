"""Please generate a paragraph:
1) with exactly 3 sentences;
2) with sentences having the last word to be 'harbor', 'morning', 'door', respectively."""


class InferenceModel(BaseModel):
    """A paragraph of three sentences, each with a given last word."""

    def __init__(self, context, max_tokens=400):
        super().__init__(context=context, max_tokens=max_tokens)
        self.lasts = ["harbor", "morning", "door"]
        self.sentences = 0

    @classmethod
    def prior_prompt(cls):
        return "Write a paragraph."

    @classmethod
    def proposal_prompt(cls):
        return "Write a paragraph with 3 sentences that end with 'harbor', 'morning', 'door'."

    async def step(self):
        """Step: a sentence.

        Strategy: from the fourth word on, the last word comes where the Follower wants it, and
        after 28 words at the latest.
        """
        last = self.lasts[self.sentences]
        await self.hint(f"Write sentence {self.sentences + 1} of 3. End it with '{last}'.")
        count = 0
        while count < 28 and not (count >= 3 and await self.wants_word(last)):
            await self.next_word(capital=count == 0)
            count += 1
        await self.force(" " + last)
        await self.end_sentence()
        self.sentences += 1
        if self.sentences == 3:
            await self.end()

    def check(self, text):
        sentences = [units.words(sentence) for sentence in units.sentences(text)]
        return len(sentences) == 3 and all(
            words and units.same_word(words[-1], last) for words, last in zip(sentences, self.lasts)
        )
