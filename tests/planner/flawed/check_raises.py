# flaw: check raises on every text
# line: 19
# fix: test its length

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        words = units.words(text)
        return words[7] == "door"
