# flaw: a generator is stored, and cannot be copied
# line: 9
# fix: store a list

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5
        self.places = (k for k in range(5))

    async def step(self):
        await self.next_word()
        self.score(30 * self.random.random())

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
