# flaw: prior_prompt is an ordinary method
# line: 6
# fix: @classmethod; prior_prompt(cls)

class InferenceModel(BaseModel):
    def prior_prompt(self):
        return "Write a sentence."

    async def step(self):
        await self.next_word()
        await self.end()
