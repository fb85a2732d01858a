# flaw: several words are observed as one token
# line: 12
# fix: await self.force

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        await self.observe(self.context.next_token(), ' of the people')

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
