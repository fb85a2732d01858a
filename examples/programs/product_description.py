class InferenceModel(BaseModel):
    """A description of a tea under a lawyer's rules. Run it with

        disciple exec examples/programs/product_description.py

    It says nothing that would need proof, ends with the required phrase, and fits its place: two
    sentences of 6 to 14 words and the phrase, 200 characters at most.
    """

    banned = [
        *("best", "better", "cure", "cures", "guaranteed", "heal", "heals", "health", "healthy"),
        *("medical", "medicine", "miracle", "natural", "never", "organic", "perfect", "safe"),
    ]
    required = "Flavour may vary."
    longest = 200

    def __init__(self, context, max_tokens=80):
        super().__init__(context=context, max_tokens=max_tokens)

    @classmethod
    def prior_prompt(cls):
        return "Write a paragraph about tea."

    @classmethod
    def proposal_prompt(cls):
        return "Write a paragraph about tea with 3 sentences."

    async def step(self):
        """Step granularity: sentence.

        Generation strategy: each sentence is free but for the banned words and its length. The
        follower may write no more characters than are left once the phrase has its own.

        End condition: the required phrase.
        """
        if len(units.sentences(self.text)) == 2:
            await self.force(" " + self.required)
            await self.end()
            return
        room = self.longest - len(" " + self.required) - len(self)
        async with MaxCharsMask(self, max_chars=room):
            await self.next_sentence(min_words=6, max_words=14, avoid=self.banned)

    def check(self, text):
        words = [word.lower() for word in units.words(text)]
        return (
            len(text) <= self.longest
            and text.endswith(self.required)
            and not set(words) & set(self.banned)
            and len(units.sentences(text)) == 3
        )
