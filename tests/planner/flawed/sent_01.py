# flaw: the paper's off-by-one: the 102 characters are full before the mark
# line: 15
# fix: leave room; 1 - len(self)

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens: int = 32):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target_length = 102

    async def step(self):
        async with MaxCharsMask(self, max_chars=self.target_length - len(self)):
            token = await self.next_token()
        if len(self) == self.target_length:
            async with PunctuationMask(self):
                await self.next_token()
            await self.end()
            return
        if self.context.token_count > self.max_tokens:
            self.condition(False)
            await self.end()
            return
