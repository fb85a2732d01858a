class InferenceModel(BaseModel):
    """Writes when a shop is open, in a fixed form: 'Mon-Fri 09:00-17:30'.

    disciple exec examples/programs/opening_times.py
    """

    pattern = r"(Mon|Tue|Wed|Thu)-(Fri|Sat|Sun) (0[6-9]|1[01]):[03]0-(1[5-9]|2[0-2]):[03]0"

    @classmethod
    def prior_prompt(cls):
        return "Write the opening times of a shop."

    async def step(self):
        """Two tokens a step, so that particles are compared on the way."""
        async with RegexMask(self, self.pattern, whole=True) as times:
            if not await self.fill(times, tokens=2):
                return
        await self.end()

    def check(self, text):
        return re.fullmatch(self.pattern, text) is not None
