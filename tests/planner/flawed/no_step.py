# flaw: the method has another name
# line: 5
# fix: async def step(self)

class InferenceModel(BaseModel):
    async def run(self):
        await self.next_word()
        await self.end()
