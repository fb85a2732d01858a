IRREGULAR = {
    **dict.fromkeys(("people", "soldier", "something", "sometimes", "every", "evening"), 2),
    **dict.fromkeys(("giant", "lion", "poem", "poet", "create", "real", "being", "chaos"), 2),
    **dict.fromkeys(("area", "idea", "video", "museum", "champion", "everyone", "somebody"), 3),
    **dict.fromkeys(("society", "everybody"), 4),
    **dict.fromkeys(("someone", "rhythm", "business", "science"), 2),
}
# Where two vowels side by side are two syllables: "radio", "usual", "quiet", "flying", "happier".
APART = re.compile(
    r"(?<![tcsxgl])i(?:a(?!ge)|o(?!n)|u)|(?<![qg])ua|(?<![tc])ie(?:t|n[ct])"
    r"|(?:[eoy]|(?<!q)u)ing|[^aeiou]{2}ie(?:r|st)$"
)


def syllables(word):
    """Syllables of an English word: groups of vowels, less silent ones, plus those held apart."""
    word = word.lower()
    if word in IRREGULAR:
        return IRREGULAR[word]
    count = len(re.findall("[aeiouy]+", word)) + len(APART.findall(word)) + word.endswith("ism")
    silent = (
        re.search(r"[^aeiouyl]e$|[aeiouy]le$", word)
        or re.search(r"[^aeiouylsxzcgh]es$|[aeiouy]les$|[^cs]hes$", word)
        or re.search(r"[^aeiouytd]ed$", word)
    )
    return max(1, count - bool(silent))


class InferenceModel(BaseModel):
    """A haiku: three lines of 5, 7 and 5 syllables. Run it with

        disciple exec examples/programs/haiku.py -n 64

    The syllables are counted by rules, which are wrong for some words.
    """

    def __init__(self, context, max_tokens=64):
        super().__init__(context=context, max_tokens=max_tokens)
        self.lines = [5, 7, 5]

    @classmethod
    def prior_prompt(cls):
        return "Write a poem about the winter sea."

    async def step(self):
        """Step granularity: word.

        Generation strategy: any word that the line has room for. A word of k syllables has at
        least k letters, and seldom more than 5k.

        End condition: the last line is full.
        """
        line = self.text.count("\n")
        room = self.lines[line] - self.used(line)
        begins = self.text[-1:] in ("", "\n")
        word = await self.next_word(max_chars=5 * room, punctuation="", capital=begins)
        room -= syllables(word)
        self.condition(room >= 0)
        if room == 0 and line == len(self.lines) - 1:
            await self.end_sentence(marks=".")
            await self.end()
        elif room == 0:
            await self.force("\n")

    def used(self, line):
        lines = self.text.split("\n")
        return sum(syllables(word) for word in units.words(lines[line]) if word.isalpha())

    def check(self, text):
        lines = units.lines(text)
        words = [[word for word in units.words(line) if word.isalpha()] for line in lines]
        return [sum(map(syllables, line)) for line in words] == [5, 7, 5]
