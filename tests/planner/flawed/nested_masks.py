# flaw: two masks that have no token in common
# line: 13
# fix: one of these masks; CharsMask

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        async with CharsMask(self, "abcdefgh"):
            async with PunctuationMask(self, ".!?"):
                await self.next_token()

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
