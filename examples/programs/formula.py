class InferenceModel(BaseModel):
    """Writes a formula with brackets that is worked out without an error.

    disciple exec examples/programs/formula.py
    """

    grammar = """
        start: product (("+" | "-") product)*
        product: atom ("*" atom)*
        atom: NUMBER | "(" start ")"
        NUMBER: /[1-9][0-9]?/
    """

    def __init__(self, context, max_tokens=40):
        super().__init__(context=context, max_tokens=max_tokens)

    @classmethod
    def prior_prompt(cls):
        return "Write a sum of numbers, such as 3+4*(5-1)."

    async def step(self):
        async with GrammarMask(self, self.grammar, whole=True) as formula:
            if not await self.fill(formula, tokens=2):
                return
        await self.end()

    def check(self, text):
        return set(text) <= set("0123456789+-*()") and text.count("(") == text.count(")")
