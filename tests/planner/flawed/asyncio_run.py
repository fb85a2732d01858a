# flaw: a loop is started inside the loop
# line: 15
# fix: write `await

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def _word(self):
        return await self.next_word()

    async def step(self):
        import asyncio
        word = asyncio.run(self._word())

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
