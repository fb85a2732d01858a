class InferenceModel(BaseModel):
    """Writes a sentence of six words, most of which begin with the same letter.

    A soft constraint: each word that begins with "s" doubles the particle's weight three times
    over, and nothing is forbidden. Run it with

        disciple exec examples/programs/tongue_twister.py -n 64
    """

    def __init__(self, context, max_tokens=48):
        super().__init__(context=context, max_tokens=max_tokens)

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        """Step granularity: word.

        Generation strategy: draw a word, and score it.

        End condition: six words and a mark.
        """
        word = await self.next_word(capital=not self.text, punctuation="")
        if word.lower().startswith("s"):
            self.score(3 * math.log(2))
        if len(self.words) == 6:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        words = units.words(text)
        return len(words) == 6 and sum(w.lower().startswith("s") for w in words) >= 3
