# flaw: lowered text is asked for an ending with a capital
# line: 14
# fix: lower both sides

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    async def step(self):
        await self.next_word()
        if len(self.words) == self.target - 1:
            await self.force(" Glasgow")
            self.condition(self.text.lower().endswith("Glasgow"))

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
