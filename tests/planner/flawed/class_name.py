# flaw: the class has another name
# line: 5
# fix: class InferenceModel(BaseModel)

class SentenceModel(BaseModel):
    async def step(self):
        await self.next_word()
        await self.end()
