# flaw: the room runs out before the end
# line: 13
# fix: test the room

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        room = 3 - len(self)
        async with MaxCharsMask(self, max_chars=room), AvoidCharsMask(self, ".!?"):
            await self.next_token()
        if len(self) == 20:
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
