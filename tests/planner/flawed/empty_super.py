# flaw: super().__init__ is called without the context
# line: 7
# fix: super().__init__(context=context

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=64):
        super().__init__()
        self.target = 5

    async def step(self):
        await self.next_word()
        await self.end()
