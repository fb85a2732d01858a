# flaw: max_words is smaller than min_words
# line: 11
# fix: leaves no room

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_sentence(min_words=8, max_words=5)
        await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
