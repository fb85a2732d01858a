class InferenceModel(BaseModel):
    """One sentence with every concept, each in one of its forms."""

    def __init__(self, context, max_tokens=96):
        super().__init__(context=context, max_tokens=max_tokens)
        self.missing = [["dog", "dogs"], ["catch", "catches", "caught"], ["ball", "balls"]]
        self.free = 0

    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    @classmethod
    def proposal_prompt(cls):
        return "Write a sentence with the words 'dog', 'catch', 'ball'."

    async def step(self):
        """A word: a concept where the Follower wants it, or after four free words."""
        for forms in self.missing if self.text else []:
            if self.free == 4 or await self.wants_word(forms[0]):
                word = await self.one_of(forms)
                self.free = 0
                break
        else:
            word = await self.next_word(capital=not self.text)
            self.free += 1
        self.missing = [forms for forms in self.missing if not self.is_one_of(word, forms)]
        count = len(self.words)
        if not self.missing and (count >= 30 or (count >= 4 and await self.wants(".!?"))):
            await self.end_sentence()
            await self.end()

    async def one_of(self, forms):
        """The Follower chooses the form; the mask leaves it no other word."""
        begin = len(self)
        choices = [" " + form for form in forms]
        async with ChoiceMask(self, choices):
            while self.text[begin:] not in choices:
                await self.next_token()
        return self.text[begin + 1 :]

    def is_one_of(self, word, forms):
        return any(units.same_word(word, form) for form in forms)

    def check(self, text):
        concepts = [["dog", "dogs"], ["catch", "catches", "caught"], ["ball", "balls"]]
        words = units.words(text)
        used = [any(self.is_one_of(word, forms) for word in words) for forms in concepts]
        return all(used) and len(units.sentences(text)) == 1
