# flaw: the text is never ended
# line: 6
# fix: await self.end()

class InferenceModel(BaseModel):
    async def step(self):
        await self.next_word()
        if len(self.words) == 5:
            await self.end_sentence()
            return

    def check(self, text):
        return len(units.words(text)) == 5
