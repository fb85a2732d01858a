"""Please generate a sentence:
1) with exactly 12 words;
2) with the 4th, 8th, 11th words to be 'old', 'river', 'stone' respectively."""


class InferenceModel(BaseModel):
    """A sentence of 12 words, three of them given with their places."""

    def __init__(self, context, max_tokens=96):
        super().__init__(context=context, max_tokens=max_tokens)
        self.length = 12
        self.given = {4: "old", 8: "river", 11: "stone"}

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    @classmethod
    def proposal_prompt(cls):
        return "Write a sentence with 12 words with the words 'old', 'river', 'stone'."

    async def step(self):
        """Step: up to and including the next given word, so that every weight counts one.

        Strategy: free words are drawn one by one, given words are forced at their places.
        """
        while True:
            place = len(self.words) + 1
            if place in self.given:
                await self.force(" " + self.given[place])
            else:
                await self.next_word(capital=place == 1)
            if place == self.length:
                await self.end_sentence()
                await self.end()
            if place == self.length or place in self.given:
                return

    def check(self, text):
        words = units.words(text)
        return len(words) == self.length and all(
            units.same_word(words[place - 1], word) for place, word in self.given.items()
        )
