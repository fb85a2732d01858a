# flaw: check takes no text
# line: 10
# fix: def check(self, text)

class InferenceModel(BaseModel):
    async def step(self):
        await self.next_word()
        await self.end()

    def check(self):
        return len(self.words) == 1
