# flaw: an attribute of BaseModel is used before super().__init__
# line: 7
# fix: super().__init__(context=context

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=64):
        self.start = len(self.text)
        super().__init__(context=context, max_tokens=max_tokens)

    async def step(self):
        await self.next_word()
        await self.end()
