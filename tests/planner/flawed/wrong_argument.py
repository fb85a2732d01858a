# flaw: a mask has no such argument
# line: 11
# fix: MaxCharsMask(self, max_chars)

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        async with MaxCharsMask(self, limit=30):
            await self.next_word()

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
