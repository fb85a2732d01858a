"""Please generate a word:
1) with exactly 13 characters;
2) with the 4th, 8th, 11th characters to be 'e', 'a', 'o' respectively."""


class InferenceModel(BaseModel):
    """A word of 13 letters, three of them given with their places."""

    def __init__(self, context, max_tokens=32):
        super().__init__(context=context, max_tokens=max_tokens)
        self.length = 13
        self.given = {4: "e", 8: "a", 11: "o"}

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        """Step: the whole word.

        Strategy: the letters are drawn with a look ahead, so that the beginning leaves room for
        the letters that are given.
        """
        await self.preface("It was a ")  # a word as it stands in a sentence, and no capital
        free = string.ascii_lowercase
        places = [self.given.get(place, free) for place in range(1, self.length + 1)]
        await self.spell(places, after=string.ascii_letters, bold=0.9)
        await self.end_word()
        self.score(-sum(self.char_log_probs[:4]))  # any beginning counts alike
        self.finish()

    def check(self, text):
        return len(text) == self.length and all(
            text[place - 1] == letter for place, letter in self.given.items()
        )
