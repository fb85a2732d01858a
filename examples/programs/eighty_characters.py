class InferenceModel(BaseModel):
    """Writes a sentence of exactly 80 characters, white space and the last mark included.

    Run it with

        disciple exec examples/programs/eighty_characters.py
    """

    def __init__(self, context, max_tokens=80):
        super().__init__(context=context, max_tokens=max_tokens)
        self.length = 80

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        """Step granularity: word.

        Generation strategy: as long as there is much room, any word will do. A word near the end
        either leaves room for another one, or fills the room exactly.

        End condition: one character is left, and a mark takes it.
        """
        room = self.length - 1 - len(self) - bool(self.text)  # letters; the mark takes one
        if room > 10:
            await self.next_word(max_chars=room - 5, capital=not self.text)
        else:
            await self.next_word(min_chars=room, max_chars=room, punctuation="")
        if len(self) == self.length - 1:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(text) == self.length
