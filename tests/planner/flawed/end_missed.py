# flaw: the count passes the target without being equal to it
# line: 12
# fix: can it be true

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        await self.next_word()
        if len(self.words) == self.target:
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
