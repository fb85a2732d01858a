"""The static check finds the mistakes that models make, and nothing in good programs."""

import pytest

from disciple_ext.sandbox.check.check import Finding, check

GOOD = '''
class InferenceModel(BaseModel):
    """Twelve words."""

    def __init__(self, context, max_tokens=64):
        super().__init__(context=context, max_tokens=max_tokens)
        self.target = 12

    async def word(self):
        return self.next_word()

    async def step(self):
        async with AvoidCharsMask(self, "x"):
            await self.next_word()
        while True:
            if len(self.words) >= self.target:
                break
            await self.next_word()
        self.condition(len(self.words) == self.target)
        await self.end()
'''

PARA_05 = """
class InferenceModel(BaseModel):
    def __init__(self, context, max_tokens: int = 256):
        super().__init__(context=context, max_tokens=max_tokens)
        self.sentence_ends = ["offices", "door", "Oxford"]
        self.sentence_count = 0

    async def step(self):
        target_last_word = self.sentence_ends[self.sentence_count]
        while True:
            word = await self.next_word()
            if word.strip().lower() == target_last_word:
                break
        await self.end()
"""


def model(body: str) -> str:
    """A program whose step is ``body``."""
    lines = "\n".join("        " + line for line in body.split("\n"))
    return f"class InferenceModel(BaseModel):\n    async def step(self):\n{lines}\n"


def only(source: str) -> Finding:
    (finding,) = check(source)
    return finding


def test_a_good_program_has_no_findings():
    assert check(GOOD) == []


@pytest.mark.parametrize(
    ("source", "line", "message"),
    [
        ("", 1, "no class InferenceModel"),
        ("class InferenceModel(BaseModel):\n    pass", 1, "has no step"),
        ("class InferenceModel:\n    async def step(self): ...", 1, "no base class"),
        ("class InferenceModel(BaseModel):\n    def step(self): ...", 2, "step is not async"),
        ("x = (1,\n", 1, "not Python"),
        ("x = '\0'", 1, "not Python"),
        (model("self.next_word()"), 3, "self.next_word() is a coroutine"),
        (model("word = self.next_token()\nreturn word"), 3, "never awaited"),
        (model("if self.wants_to_end():\n    return"), 3, "self.wants_to_end()"),
        (model("await self.condition(True)"), 3, "cannot be awaited"),
        (model("while True:\n    x = 1"), 3, "never ends"),
        (model("import os\nawait self.end()"), 3, "import of os"),
        (model("from . import secrets"), 3, "outside the allow-list"),
        (model("open('f')"), 3, "open() is not for programs"),
        (model("with MaxCharsMask(self, 3):\n    pass"), 3, "async context manager"),
    ],
)
def test_what_cannot_work_is_an_error(source, line, message):
    finding = only(source)
    assert finding.fatal
    assert finding.line == line
    assert message in finding.message
    assert finding.suggestion


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("if self.text.lower() == 'Oxford':\n    await self.end()", "'Oxford'"),
        ("if 'Oxford' != self.text.lower().strip():\n    await self.end()", "'Oxford'"),
        ("if self.text.lower() in ('a', 'B'):\n    await self.end()", "'B'"),
        ("import random\nawait self.end()", "do not repeat"),
        ("self.rest = (x for x in 'abc')", "generator"),
        ("self.far = lambda: self.text", "lambda"),
    ],
)
def test_what_may_be_meant_is_a_warning(body, message):
    finding = only(model(body))
    assert not finding.fatal
    assert message in finding.message


@pytest.mark.parametrize(
    "body",
    [
        "word = self.next_word()\nawait word\nawait self.end()",
        "await self.first([self.next_word() for _ in range(2)])\nawait self.end()",
        "while True:\n    await self.next_word()\n    if len(self) > 9:\n        await self.end()",
        "while True:\n    await self.next_word()\n    self.stop_if_long()\nawait self.end()",
        "if len(self) == 9:\n    await self.end_sentence()\nawait self.end()",
        "text = self.text\nself.words_left = 3\nawait self.end()",
        "async with AvoidCharsMask(self, ','):\n    await self.end_sentence()\nawait self.end()",
        "if self.text.lower().endswith('oxford'):\n    await self.end()",
    ],
)
def test_what_may_well_work_is_left_alone(body):
    assert check(model(body)) == []


@pytest.mark.parametrize(
    "rest",
    [
        "class Base(BaseModel):\n    async def step(self): await self.end()\n"
        "class InferenceModel(Base):\n    pass\n",
        "class InferenceModel(BaseModel):\n    def __init__(self, *args, **kwargs):\n"
        "        super().__init__(*args, **kwargs)\n"
        "    async def step(self): await self.end()\n",
        "class InferenceModel(BaseModel):\n    async def step(self, more=0): await self.end()\n"
        "    @staticmethod\n    def check(text): return True\n"
        "    @staticmethod\n    def prior_prompt(): return 'Write.'\n",
        "class InferenceModel(BaseModel):\n    async def step(self): await self.end()\n"
        "    async def check(self, text, strict=False): return True\n",
    ],
)
def test_other_outlines_are_fine(rest):
    assert check(rest) == []


def test_upper_case_on_the_other_side_is_fine():
    assert check(model("if self.text.upper() == 'OXFORD':\n    await self.end()")) == []


def test_the_papers_para_05_bug_is_found_through_names():
    finding = only(PARA_05)
    assert (finding.line, finding.fatal) == (12, False)
    assert "'Oxford'" in finding.message


def test_a_class_attribute_counts_only_if_it_is_changed():
    head = "class InferenceModel(BaseModel):\n    words = ['a', 'b']\n    async def step(self):\n"
    assert check(head + "        print(self.words[0])\n") == []
    finding = only(head + "        self.words.append('c')\n")
    assert (finding.line, finding.fatal) == (2, False)


def test_findings_come_in_the_order_of_lines():
    source = model("self.end()\nimport os\nself.next_word()")
    assert [finding.line for finding in check(source)] == [3, 4, 5]


def test_deep_nesting_is_reported_not_raised():
    assert check("x = " + "(" * 5000 + ")" * 5000)[0].fatal
    assert check("x = " + "-" * 100_000 + "1")[0].fatal


def test_a_coroutine_chosen_by_a_condition_is_awaited_outside() -> None:
    choice = "        done = await (self.wants_to_end() if self.text else self.wants('.'))\n"
    lost = "        done = self.wants_to_end() if self.text else None\n"
    step = "    async def step(self):\n"
    assert check(GOOD.replace(step, step + choice)) == []
    assert any("never awaited" in f.message for f in check(GOOD.replace(step, step + lost)))
