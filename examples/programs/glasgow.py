class InferenceModel(BaseModel):
    """Writes a sentence of 18 words, with 'Glasgow', 'in', 'and' as the 4th, 8th and 11th.

    This is the task of the paper's first figure. Run it with

        disciple exec examples/programs/glasgow.py
    """

    def __init__(self, context, max_tokens=96):
        super().__init__(context=context, max_tokens=max_tokens)
        self.given = {4: "Glasgow", 8: "in", 11: "and"}

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        """Step granularity: up to and including the next given word.

        Generation strategy: the follower writes the free words. A given word is forced at its
        place, and the particle's weight is multiplied by the probability of it: particles that
        came to a place where "Glasgow" fits are kept, the others are culled.

        End condition: 18 words and a mark.
        """
        while True:
            place = len(self.words) + 1
            if place in self.given:
                await self.force(" " + self.given[place])
                return
            await self.next_word(capital=place == 1)
            if place == 18:
                await self.end_sentence()
                await self.end()
                return

    def check(self, text):
        words = units.words(text)
        return len(words) == 18 and all(
            units.same_word(words[place - 1], word) for place, word in self.given.items()
        )
