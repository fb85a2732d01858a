# flaw: a coroutine is taken for a truth value
# line: 13
# fix: await self.wants_to_end

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        if len(self.words) == self.target:
            self.condition(self.wants_to_end())
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
