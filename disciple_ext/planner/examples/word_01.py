"""Please generate a word with at least 10 characters."""


class InferenceModel(BaseModel):
    """A word of at least 10 letters."""

    def __init__(self, context, max_tokens=32):
        super().__init__(context=context, max_tokens=max_tokens)
        self.least = 10

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        """Step: the whole word.

        Strategy: a length is drawn, then the letters, with a look ahead to where the word ends.
        """
        await self.preface("It was a ")  # a word as it stands in a sentence, and no capital
        length = self.least + self.random.randrange(3)
        places = [string.ascii_lowercase] * length
        await self.spell(places, after=string.ascii_letters, bold=0.9)
        await self.end_word()
        self.score(-sum(self.char_log_probs[:4]))  # any beginning counts alike
        self.finish()

    def check(self, text):
        return len(text) >= self.least and text.isalpha()
