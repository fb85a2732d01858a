class InferenceModel(BaseModel):
    """Five words without a capital and without long words."""

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        async with LowerCaseMask(self):
            await self.next_word(max_chars=9)
        if len(self.words) == 5:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return text == text.lower() and not long_words(text)
