# flaw: the log of a share that may be zero
# line: 12
# fix: self.condition(False)

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        share = self.text.count('zq') / 5
        self.score(math.log(share))
        await self.next_word()

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
