class InferenceModel(BaseModel):
    """Solves a word problem line by line; the service 'steps' weighs each line.

    The program reads which numbers come in and which go out. The follower guesses each result, and
    goes on with its own guess. Run it from examples/word_problems.py.
    """

    @classmethod
    def prior_prompt(cls):
        return "Write down some sums."

    async def step(self):
        """Step granularity: one line, such as ``7 + 5 = 12``."""
        done = units.lines(self.text)
        left = done[-1].split()[-1] if done else self.first
        sign, number = self.moves[len(done)]
        await self.force(f"{left} {sign} {number} =")
        async with ChoiceMask(self, [f" {n}\n" for n in range(100)]):
            while not self.text.endswith("\n"):
                await self.next_token()
        await self.weigh("steps", about=self.problem)
        if len(done) + 1 == len(self.moves):
            await self.force(f"Answer: {units.lines(self.text)[-1].split()[-1]}")
            await self.end()

    def check(self, text):
        return len(units.lines(text)) == len(self.moves) + 1


def arguments(task):
    """The numbers of the problem, and whether each comes in or goes out."""
    parts = re.findall(r"(\w+) (?:away )?(\d+)", task)
    if len(parts) < 2:
        return None
    signs = {"has": "+", "finds": "+", "buys": "+", "gives": "-", "eats": "-", "loses": "-"}
    moves = [(signs.get(verb, "+"), number) for verb, number in parts[1:]]
    return {"problem": task, "first": parts[0][1], "moves": moves}
