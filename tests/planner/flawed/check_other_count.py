# flaw: check and step count differently
# line: 10
# fix: check rejected; make step write

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    def check(self, text):
        return len(text) == 30 and len(units.words(text)) == 12

    async def step(self):
        await self.next_word()
        if len(self) >= 30:
            await self.end_sentence()
            await self.end()
