# flaw: check never returns
# line: 19 or 20
# fix: awaited nothing; an end

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        count = 0
        while count < 5:
            words = units.words(text)
        return True
