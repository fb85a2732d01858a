"""Please generate a sentence containing the word 'winter', 'boat', 'market'."""


class InferenceModel(BaseModel):
    """A sentence that contains three given words, in whatever order."""

    def __init__(self, context, max_tokens=160):
        super().__init__(context=context, max_tokens=max_tokens)
        self.given = ["winter", "boat", "market"]
        self.missing = list(self.given)
        self.free = 0

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    @classmethod
    def proposal_prompt(cls):
        return "Write a sentence with the words 'winter', 'boat', 'market'."

    async def step(self):
        """Step: a word.

        Strategy: a missing word comes where the Follower wants it, or after six free words.
        """
        for word in self.missing if self.text else []:
            if self.free == 6 or await self.wants_word(word):
                await self.force(" " + word)
                self.free = 0
                break
        else:
            word = await self.next_word(capital=not self.text)
            self.free += 1
        self.missing = [other for other in self.missing if not units.same_word(other, word)]
        count = len(self.words)
        if not self.missing and (count >= 30 or (count >= 4 and await self.wants(".!?"))):
            await self.end_sentence()
            await self.end()

    def check(self, text):
        words = units.words(text)
        return all(any(units.same_word(g, word) for word in words) for g in self.given)
