# flaw: a word is waited for by chance, and the particle dropped without it
# line: 13
# fix: force the word

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        word = await self.next_word()
        if len(self.words) == 2:
            self.condition(word == "zygote")

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
