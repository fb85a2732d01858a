"""Write an abstract for a grant proposal on elephant ecology and conservation. Your response should start with "Abstract: <YOUR ABSTRACT>". The abstract must be between 75-100 words. You are not allowed to use any of the following terms: conservation, sustainability, environment, ecology, wildlife, africa, asia, society, community, biodiversity, endangered, threatened, species, habitat, poaching, science, research."""


class InferenceModel(BaseModel):
    """An abstract of 76 to 99 words without 17 terms."""

    def __init__(self, context, max_tokens=400):
        super().__init__(context=context, max_tokens=max_tokens)
        singular = (
            "conservation sustainability environment ecology wildlife africa asia society "
            "community biodiversity endangered threatened species habitat poaching science research"
        ).split()
        self.terms = singular + [t[:-1] + "ies" for t in singular if t.endswith("y")]

    @classmethod
    def prior_prompt(cls):
        return "Write an abstract about elephants."

    async def step(self):
        """Step: a sentence.

        Strategy: the terms are masked as words. Inside a longer word ("environmental") they
        cannot be seen coming, so a particle that writes one is dropped.
        """
        if not self.text:
            await self.force("Abstract:")
            await self.next_word(avoid=self.terms, capital=True)
        await self.next_sentence(min_words=5, max_words=24, avoid=self.terms)
        self.condition(not any(term in self.text.lower() for term in self.terms))
        if len(self.text.split()) > 75:  # the label is one of them
            await self.end()

    def check(self, text):
        label, _, body = text.partition(" ")
        allowed = not any(term in text.lower() for term in self.terms)
        return label == "Abstract:" and 75 <= len(body.split()) <= 99 and allowed
