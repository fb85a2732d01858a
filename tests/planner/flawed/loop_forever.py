# flaw: a loop that never awaits
# line: 11
# fix: await a token

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        while True:
            self.target += 1

    def check(self, text):
        return len(units.words(text)) == 5
