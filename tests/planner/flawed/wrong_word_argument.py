# flaw: next_word has no such argument
# line: 11
# fix: self.next_word(max_chars

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word(max_length=7)

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
