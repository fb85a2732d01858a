# flaw: the answer was left unfinished: a bracket is never closed
# line: 7
# fix: never closed; plain Python

class InferenceModel(BaseModel):
    async def step(self):
        words = units.words(self.text
        await self.end()
