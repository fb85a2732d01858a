# flaw: an attribute that was never assigned
# line: 12
# fix: assign `self.goal`; __init__

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        if len(self.words) == self.goal:
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
