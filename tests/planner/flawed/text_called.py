# flaw: self.text is taken for a method
# line: 12
# fix: without brackets

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        if len(self.text().split()) == 5:
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
