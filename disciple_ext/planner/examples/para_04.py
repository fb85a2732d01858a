"""Please generate a paragraph:
1) with at least 2 sentences;
2) with all sentences having at least 18 words."""


class InferenceModel(BaseModel):
    """A paragraph of two to four sentences of at least 18 words."""

    def __init__(self, context, max_tokens=600):
        super().__init__(context=context, max_tokens=max_tokens)
        self.sentences = 0

    @classmethod
    def prior_prompt(cls):
        return "Write a paragraph."

    @classmethod
    def proposal_prompt(cls):
        return "Write a paragraph with long sentences."

    async def step(self):
        """Step: a sentence.

        Strategy: a bound that the task does not ask for (30 words) keeps every sentence, and so
        the run, from going on for ever.
        """
        await self.next_sentence(min_words=18, max_words=30)
        self.sentences += 1
        if self.sentences == 4 or (self.sentences >= 2 and await self.wants_to_end()):
            await self.end()

    def check(self, text):
        lengths = [len(units.words(sentence)) for sentence in units.sentences(text)]
        return len(lengths) >= 2 and all(length >= 18 for length in lengths)
