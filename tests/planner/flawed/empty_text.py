# flaw: the text is ended before anything is drawn
# line: 6
# fix: draw before

class InferenceModel(BaseModel):
    async def step(self):
        if len(self.words) >= 5 or not self.text:
            await self.end()
            return
        await self.next_word()
