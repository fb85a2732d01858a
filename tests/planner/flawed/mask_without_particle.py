# flaw: the number is given in the particle's place
# line: 13
# fix: PunctuationMask(self

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        if len(self.words) == self.target:
            async with PunctuationMask('.!?'):
                await self.next_token()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
