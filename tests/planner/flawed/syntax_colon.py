# flaw: a colon is missing
# line: 6
# fix: expected ':'; plain Python

class InferenceModel(BaseModel):
    async def step(self)
        await self.next_word()
        await self.end()
