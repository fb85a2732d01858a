"""Please generate a sentence with exactly 75 characters. Include whitespace into your character count."""


class InferenceModel(BaseModel):
    """A sentence of exactly 75 characters."""

    def __init__(self, context, max_tokens=96):
        super().__init__(context=context, max_tokens=max_tokens)
        self.length = 75

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    @classmethod
    def proposal_prompt(cls):
        return "Write a sentence with 75 characters."

    async def step(self):
        """Step: a word.

        Strategy: a word leaves room for another one, or fills the room exactly. The mark at the
        end takes the last character.
        """
        room = self.length - 1 - len(self) - bool(self.text)  # letters; a blank comes before them
        if room <= 7 or (room <= 10 and self.random.random() < 0.5):
            await self.next_word(min_chars=room, max_chars=room, punctuation="")
        else:
            marks = "," if room > 12 else ""
            await self.next_word(max_chars=room - 4, punctuation=marks, capital=not self.text)
        if len(self) == self.length - 1:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(text) == self.length
