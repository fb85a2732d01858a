# flaw: the end is returned, not awaited
# line: 14
# fix: await self.end

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        if len(self.words) == self.target:
            await self.end_sentence()
            return self.end()

    def check(self, text):
        return len(units.words(text)) == 5
