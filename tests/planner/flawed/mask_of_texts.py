# flaw: mask_dist gets texts in place of token ids
# line: 12
# fix: self.wants

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        if await self.sample(self.context.mask_dist({'.', '!'})):
            await self.end()
            return

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
