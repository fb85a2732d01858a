"""Please write an ingredients list for chocolate chip brownies with at most 7 ingredients costing less than $18.00 total. The list should be in dashed bullet point format starting with "Ingredients:". Each ingredient should be listed on a separate line with the price given in USD."""


class InferenceModel(BaseModel):
    """A list of six ingredients with prices, for less than $18.00."""

    def __init__(self, context, max_tokens=160):
        super().__init__(context=context, max_tokens=max_tokens)
        self.cents = 1799
        self.lines = 6
        self.names = []
        self.amounts = [" 1 cup", " 2 cups", " 1/2 cup", " 1/4 cup", " 1 teaspoon", " 2 large"]

    @classmethod
    def prior_prompt(cls):
        return "Write an ingredients list for chocolate chip brownies."

    async def step(self):
        """Step: a line.

        Strategy: the Follower chooses an amount from a list, and a name of one to three words;
        the program does the sums, and sets a price that leaves enough for the other lines.
        """
        await self.force("\n-" if self.text else "Ingredients:\n-")
        begin = len(self.text)
        async with ChoiceMask(self, self.amounts):
            while self.text[begin:] not in self.amounts:
                await self.next_token()
        for place in range(3):
            name = await self.next_word(avoid=self.names, punctuation="")
            if place == 2 or await self.wants_word("("):
                break
        self.names.append(name)
        share = min(299, self.cents // self.lines)
        price = self.random.randint((share + 1) // 2, share)
        self.cents, self.lines = self.cents - price, self.lines - 1
        await self.force(f" (${price / 100:.2f})")
        if not self.lines:
            await self.end()

    def check(self, text):
        heading, *items = units.lines(text)
        prices = [re.findall(r"\$(\d+\.\d\d)", item) for item in items]
        listed = all(item.startswith("- ") for item in items) and len(items) <= 7
        priced = all(len(found) == 1 for found in prices)
        total = sum(float(price) for found in prices for price in found)
        return heading == "Ingredients:" and listed and priced and total < 18
