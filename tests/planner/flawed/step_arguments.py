# flaw: step takes an argument that nobody gives
# line: 6
# fix: keep values as attributes

class InferenceModel(BaseModel):
    async def step(self, position):
        await self.next_word()
        await self.end()
