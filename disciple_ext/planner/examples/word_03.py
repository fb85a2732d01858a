"""Please generate a word:
1) with exactly 9 characters;
2) with the last character to be 'c'."""


class InferenceModel(BaseModel):
    """A word of 9 letters that ends with 'c'."""

    def __init__(self, context, max_tokens=32):
        super().__init__(context=context, max_tokens=max_tokens)
        self.length = 9
        self.last = "c"

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        """Step: the whole word.

        Strategy: the letters are drawn with a look ahead, for few beginnings lead to the last one.
        """
        await self.preface("It was a ")  # a word as it stands in a sentence, and no capital
        places = [string.ascii_lowercase] * (self.length - 1) + [self.last]
        await self.spell(places, after=string.ascii_letters, bold=0.9)
        await self.end_word()
        self.score(-sum(self.char_log_probs[:4]))  # any beginning counts alike
        self.finish()

    def check(self, text):
        return len(text) == self.length and text.endswith(self.last)
