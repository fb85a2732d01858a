# flaw: __init__ does not call the one of BaseModel
# line: 6
# fix: super().__init__(context=context

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=64):
        self.target = 5

    async def step(self):
        await self.next_word()
        await self.end()
