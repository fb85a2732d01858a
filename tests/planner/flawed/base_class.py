# flaw: the base is LLaMPPL's own Model
# line: 5
# fix: derive it from `BaseModel`

class InferenceModel(Model):
    async def step(self):
        await self.next_word()
        await self.end()
