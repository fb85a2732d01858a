# flaw: __init__ does not take the context
# line: 6
# fix: def __init__(self, context

class InferenceModel(BaseModel):
    def __init__(self):
        super().__init__()
        self.target = 5

    async def step(self):
        await self.next_word()
        await self.end()
