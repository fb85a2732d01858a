# flaw: proposal_prompt returns a list of messages
# line: 6
# fix: return a string

class InferenceModel(BaseModel):
    @classmethod
    def proposal_prompt(cls):
        return [{"role": "user", "content": "Write a sentence."}]

    async def step(self):
        await self.next_word()
        await self.end()
