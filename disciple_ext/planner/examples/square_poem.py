"""Write a poem with 8 lines, where each line has exactly 8 words."""


class InferenceModel(BaseModel):
    """A poem of 8 lines of 8 words."""

    def __init__(self, context, max_tokens=300):
        super().__init__(context=context, max_tokens=max_tokens)
        self.lines = 0

    @classmethod
    def prior_prompt(cls):
        return "Write a poem."

    async def step(self):
        """Step: a line. A mark comes after it where the Follower wants one."""
        for place in range(8):
            await self.next_word(capital=place == 0)
        self.lines += 1
        if self.lines == 8:
            await self.end_sentence()
            await self.end()
            return
        if await self.wants(",.;!?"):
            await self.end_sentence(",.;!?")
        await self.force("\n")

    def check(self, text):
        return [len(line.split()) for line in units.lines(text)] == [8] * 8
