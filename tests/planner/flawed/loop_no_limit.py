# flaw: a loop that waits for a word by chance
# line: 12 or 13
# fix: bound each loop

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        word = ""
        while word != "zygote":
            word = await self.next_word()
        await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
