# flaw: a loop with draws and no way out
# line: 11
# fix: `break`

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        while True:
            await self.next_word()

    def check(self, text):
        return len(units.words(text)) == 5
