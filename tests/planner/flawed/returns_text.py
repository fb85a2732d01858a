# flaw: step returns the text and never ends it
# line: 6
# fix: await self.end()

class InferenceModel(BaseModel):
    async def step(self):
        sentence = await self.next_sentence(max_words=8)
        return sentence
