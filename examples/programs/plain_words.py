class InferenceModel(BaseModel):
    """Writes a sentence with the word 'water', and without 'the' and 'a'.

    disciple exec examples/programs/plain_words.py
    """

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence about water."

    async def step(self):
        """Words up to where the follower has a place for 'water', then the rest."""
        async with WordsMask(self, avoid=["the", "a", "an"], require=["water"]):
            for place in range(1, 5):
                await self.next_word(capital=place == 1)
                if place == 4 or await self.wants_word("water"):
                    break
            await self.force(" water")
            await self.next_sentence(max_words=12)
        await self.end()

    def check(self, text):
        said = [word.lower() for word in units.words(text)]
        return "water" in said and not {"the", "a", "an"} & set(said)
