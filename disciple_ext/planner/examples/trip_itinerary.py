"""I'm planning a 3-day trip to Singapore. Please write me a detailed day-by-day itinerary that includes at least four activities per day. The itinerary should start with "Day 1:" and end with "Day 3:", with a blank line between each day. Each activity should be listed on a separate line starting with a time range in 24-hour format in square brackets (for example, "[11:00-13:00] Visit the Gardens by the Bay"). Make sure to leave at least 9 hours of free time each day for rest."""


class InferenceModel(BaseModel):
    """Three days with five activities each."""

    def __init__(self, context, max_tokens=800):
        super().__init__(context=context, max_tokens=max_tokens)
        self.day = self.done = self.clock = 0
        self.seen = []

    @classmethod
    def prior_prompt(cls):
        return "Write an itinerary for 3 days in Singapore."

    async def step(self):
        """Step: a line.

        Strategy: the program sets the times (from 9:00 on, at most two hours each, so that the
        night stays free); the Follower says what to do, and never ends on the same word.
        """
        if not self.done:
            self.day += 1
            self.clock = 9 * 60
            await self.force(f"Day {self.day}:\n")
        end = self.clock + 30 * self.random.randint(2, 4)
        begin, until = (f"{time // 60:02d}:{time % 60:02d}" for time in (self.clock, end))
        await self.force(f"[{begin}-{until}]")
        self.clock, self.done = end, (self.done + 1) % 5
        last = self.day == 3 and not self.done
        for place in range(8):
            word = await self.next_word(avoid=self.seen, capital=place == 0, punctuation="")
            if place < 2:
                continue
            if await self.wants_to_end() if last else await self.wants(["\n", "\n\n"]):
                break
        self.seen.append(word)
        if last:
            await self.end()
        else:
            await self.force("\n" if self.done else "\n\n")

    def check(self, text):
        days = [units.lines(day) for day in units.paragraphs(text)]
        activity = re.compile(r"\[\d\d:\d\d-\d\d:\d\d\] \w")
        return [day[0] for day in days] == ["Day 1:", "Day 2:", "Day 3:"] and all(
            len(day) == 6 and all(map(activity.match, day[1:])) for day in days
        )
