# flaw: a loop that never awaits, with a condition that stays true
# line: 13 or 14
# fix: awaited nothing; an end

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        left = self.target - len(self.words)
        while left > 0:
            left = self.target - len(self.words)

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
