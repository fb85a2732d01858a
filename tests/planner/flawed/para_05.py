# flaw: the paper's loop: a lowered word is compared with 'Oxford'
# line: 15
# fix: units.same_word

class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens: int = 256):
        super().__init__(context=context, max_tokens=max_tokens)
        self.sentence_ends = ["offices", "door", "Oxford", "College", "initially"]
        self.sentence_count = 0

    async def step(self):
        target_last_word = self.sentence_ends[self.sentence_count]
        while True:
            word = await self.next_word()
            if word.strip().lower() == target_last_word:
                async with PunctuationMask(self):
                    await self.next_token()
                break
            if self.context.token_count > self.max_tokens:
                self.condition(False)
                await self.end()
                return
        self.sentence_count += 1
        if self.sentence_count >= len(self.sentence_ends):
            await self.end()
            return
