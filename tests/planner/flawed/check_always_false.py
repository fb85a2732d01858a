# flaw: check counts the end mark as a word
# line: 10
# fix: check rejected; otherwise than the task

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 5

    def check(self, text):
        return len(text.replace(".", " .").split()) > 9 and text.isdigit()

    async def step(self):
        await self.next_word()

        if len(self.words) == self.target:
            await self.end_sentence()
            await self.end()
