# flaw: words are drawn under a mask without letters
# line: 12
# fix: one of these masks; CharsMask

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        async with CharsMask(self, "0123456789 "):
            await self.next_word()

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
