# flaw: check computes and returns nothing
# line: 10
# fix: `return` True or False

class InferenceModel(BaseModel):
    async def step(self):
        await self.next_word()
        await self.end()

    def check(self, text):
        len(units.words(text)) == 1
