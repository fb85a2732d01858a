"""Please generate a paragraph with all sentences having the 1st word to be 'When'."""


class InferenceModel(BaseModel):
    """A paragraph of three to five sentences, each of which begins with 'When'."""

    def __init__(self, context, max_tokens=500):
        super().__init__(context=context, max_tokens=max_tokens)
        self.sentences = 0

    @classmethod
    def prior_prompt(cls):
        return "Write a paragraph."

    @classmethod
    def proposal_prompt(cls):
        return "Write a paragraph where every sentence starts with 'When'."

    async def step(self):
        """Step: a sentence.

        Strategy: the first word is forced, the Follower writes the rest, and ends the paragraph
        where it wants to, from the third sentence on.
        """
        await self.force(" When" if self.text else "When")
        await self.next_sentence(min_words=4, max_words=30)
        self.sentences += 1
        if self.sentences == 5 or (self.sentences >= 3 and await self.wants_to_end()):
            await self.end()

    def check(self, text):
        sentences = [units.words(sentence) for sentence in units.sentences(text)]
        return all(words and units.same_word(words[0], "When") for words in sentences)
