from __future__ import annotations

import ast
import asyncio
import random
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch

from disciple_ext.errors import TaskNotUnderstood
from disciple_ext.evaluation.suites.collie import verify
from disciple_ext.evaluation.suites.puzzles import PUZZLES
from disciple_ext.follower.backend import Backend
from disciple_ext.follower.host import HostFollower
from disciple_ext.loop.steer import run_program
from disciple_ext.planner.expert.planner import ExpertPlanner, write_program
from disciple_ext.protocol.prefix import Prefix
from disciple_ext.protocol.vocabulary import Vocabulary
from disciple_ext.records.program import Program
from disciple_ext.records.result import Result
from disciple_ext.records.task import Limits, Task

_WORDS = (
    "the a of to and in is was he she it they we had not on with for at by from one old new red "
    "ship sea house river town market people story water winter morning children mountain "
    "government something yesterday can did will have has see saw go went stone garden"
).split()


class _Babble(Backend):
    """Logits that depend on the last token only: words, marks and ends, in no good order."""

    max_context = None
    forwards = 0

    def __init__(self, tokens: Sequence[bytes], eos: int) -> None:
        base = np.full(len(tokens), -6.0)
        for i, token in enumerate(tokens):
            if token.startswith(b" ") and len(token) > 1:
                base[i] = 0.0
            elif len(token) > 1:
                base[i] = -2.0
        for mark, logit in ((b".", 1.0), (b",", 0.5), (b"\n", -1.0), (b" (", -1.0)):
            base[tokens.index(mark)] = logit
        base[eos] = -1.0
        noise = np.random.default_rng(0).normal(0.0, 1.0, (len(tokens), len(tokens)))
        self.rows = torch.tensor(base + noise, dtype=torch.float32)

    async def logits(self, contexts: Sequence[Prefix]) -> torch.Tensor:
        self.forwards += 1
        return torch.stack([self.rows[c.token] for c in contexts])

    async def score(self, pairs: Sequence[tuple[Any, Any]]) -> list[torch.Tensor]:
        self.forwards += 1
        return [torch.stack([self.rows[i] for i in (c.token, *t[:-1])]) for c, t in pairs]


@pytest.fixture(scope="module")
def follower() -> HostFollower:
    words = [*_WORDS, *(w.capitalize() for w in _WORDS)]
    tokens = [bytes([i]) for i in range(256)]
    tokens += [f" {w}".encode() for w in words if len(w) > 1] + [b" a", b" A"]
    tokens += [w.encode() for w in words if len(w) > 1] + [b" ("]
    order = sorted(range(len(tokens)), key=lambda i: -len(tokens[i]))
    eos = len(tokens)

    def encode(text: str) -> list[int]:
        data, ids = text.encode(), []
        while data:
            best = next(i for i in order if data.startswith(tokens[i]))
            ids.append(best)
            data = data[len(tokens[best]) :]
        return ids

    vocabulary = Vocabulary([*tokens, b"</s>"], eos=[eos], encode=encode)

    def prompt(user: str, hint: str = "") -> tuple[int, ...]:
        return (eos, *encode(f"{user}\n{hint}\n"))

    backend = _Babble([*tokens, b"</s>"], eos)
    return HostFollower(backend, vocabulary, prompt, name="babble")


def run(instruction: str, follower: HostFollower, n: int = 6, seed: int = 0) -> Result:
    program = Program(write_program(instruction), planner="expert", trusted=True)
    task = Task(instruction, n=n, limits=Limits(timeout=60))
    return run_program(program, task, follower=follower, sampler="smc", seed=seed)


INSTANCES: list[tuple[str, str, Any]] = [
    (
        "sent_01",
        "Please generate a sentence with exactly 82 characters. Include whitespace into your "
        "character count.",
        82,
    ),
    (
        "sent_02",
        "Please generate a sentence:\n1) with exactly 11 words;\n2) with the 4th, 8th, 11th words "
        "to be 'U.S', 'Chester-le-Street', '4' respectively.",
        [11, ["U.S", "Chester-le-Street", "4"]],
    ),
    (
        "sent_02",
        "Please generate a sentence:\n1) with exactly 14 words;\n2) with the 4th, 8th, 11th words "
        "to be '2013', 'a', 'St' respectively.",
        [14, ["2013", "a", "St"]],
    ),
    (
        "sent_03",
        "Please generate a sentence:\n1) with at least 14 words;\n2) with all words having at "
        "most 5 characters.",
        [14, 5],
    ),
    (
        "sent_04",
        "Please generate a sentence containing the word '1,053', 'rising', 'the'.",
        ["1,053", "rising", "the"],
    ),
    (
        "para_01",
        "Please generate a paragraph with all sentences having the 1st word to be 'Dabinyaba'.",
        "Dabinyaba",
    ),
    (
        "para_02",
        "Please generate a paragraph:\n1) with exactly 4 sentences;\n2) not containing the word "
        "'the';\n3) not containing the word 'to';\n4) not containing the word 'of'.",
        [4, "the", "to", "of"],
    ),
    (
        "para_03",
        "Please generate a paragraph:\n1) with exactly 3 sentences;\n2) with all sentences having "
        "at least 10 words;\n3) with all sentences having at most 10 words.",
        [3, 10, 10],
    ),
    (
        "para_04",
        "Please generate a paragraph:\n1) with at least 3 sentences;\n2) with all sentences "
        "having at least 21 words.",
        [3, 21],
    ),
    (
        "para_05",
        "Please generate a paragraph:\n1) with exactly 5 sentences;\n2) with sentences having the "
        "last word to be 'd'Or', '1982', 'D.C', '2021/2022', 'doctor', respectively.",
        [5, ["d'Or", "1982", "D.C", "2021/2022", "doctor"]],
    ),
]


@pytest.mark.parametrize(("task", "prompt", "targets"), INSTANCES)
def test_every_particle_meets_the_constraints(
    task: str, prompt: str, targets: Any, follower: HostFollower
) -> None:
    result = run(prompt, follower)
    assert result.check is True
    for particle in result.particles:
        assert particle.finish_reason == "ended", particle.reason
        assert verify(task, targets, particle.text), particle.text
        assert particle.check, particle.text


@pytest.mark.parametrize("name", sorted(PUZZLES))
def test_puzzles_are_solved(name: str, follower: HostFollower) -> None:
    result = run(PUZZLES[name].prompt, follower)
    ended = [p for p in result.particles if p.finish_reason == "ended"]
    assert ended
    for particle in ended:
        verdict = PUZZLES[name].verify(particle.text)
        assert verdict.passed, (verdict.reason, particle.text)
        assert particle.check


MIXES = [
    "a sentence with exactly 20 words and 100 characters, using the word 'boat'",
    "a sentence with exactly 12 words where the first word is 'we' and the last word is 'home'",
    "a sentence that starts with 'The' and ends with 'market'",
    "a sentence with 60 to 80 characters, containing 'storm' and 'lighthouse'",
    "a sentence with between 60 and 80 characters",
    "a sentence with at most 30 characters",
    "a sentence with exactly 82 characters, all words having at most 5 characters",
    "a sentence with exactly 90 characters, with the 4th word to be 'river', without 'the'",
    "a sentence with exactly 15 words, containing 'sea', 'ship', 'U.S', with the 4th word to be "
    "'old'",
    "a sentence with at most 6 words containing the words 'sea', 'ship', 'old'",
    "a sentence with exactly 1 word",
    "a sentence with 9 to 12 words, in which each word has at least 3 characters",
    "a sentence about the sea with exactly ten words, without 'the', 'a', 'of'",
    "a paragraph with exactly 300 characters",
    "a paragraph with exactly 3 sentences and 300 characters, not containing 'the'",
    "a paragraph with between 40 and 60 words",
    "a paragraph with exactly 50 words and exactly 4 sentences",
    "a paragraph with exactly 4 sentences where every sentence starts with 'the' and has at most "
    "15 words",
    "a paragraph with all sentences having the 1st word to be 'The', with exactly 3 sentences, "
    "with sentences having the last word to be 'sea', 'sky', 'sun', respectively, not containing "
    "the word 'is'",
    "a paragraph with all sentences having the 3rd word to be 'old', with exactly 3 sentences",
    "a paragraph with exactly 3 sentences containing the words 'sea', 'ship', '1987', 'U.S'",
    "a paragraph with exactly 2 sentences, with the 5th, 9th words to be 'old', 'U.S', "
    "respectively, with the last word to be 'D.C'",
    "a paragraph with all sentences having the last word to be '1982' and all words having at "
    "most 6 characters",
    "a paragraph with sentences having the first word to be 'One', 'Two', respectively",
    "a paragraph with at most 2 sentences of at most 3 words each",
    "a paragraph with at least 7 sentences",
    "a sentence",
]


@pytest.mark.parametrize("mix", MIXES)
def test_mixes_that_collie_does_not_show(mix: str, follower: HostFollower) -> None:
    result = run(f"Write {mix}.", follower)
    for particle in result.particles:
        assert particle.finish_reason == "ended", particle.reason
        assert particle.check, particle.text


@pytest.mark.parametrize(
    "instruction",
    [*(prompt for _, prompt, _ in INSTANCES), *(p.prompt for p in PUZZLES.values())],
)
def test_programs_are_short_and_plain(instruction: str) -> None:
    source = write_program(instruction)
    lines = source.splitlines()
    assert len(lines) <= 75
    assert max(map(len, lines)) <= 100
    tree = ast.parse(source)
    assert [type(node).__name__ for node in tree.body] == ["ClassDef"]
    assert not any(isinstance(node, ast.Import | ast.ImportFrom) for node in ast.walk(tree))
    step = next(n for n in ast.walk(tree) if isinstance(n, ast.AsyncFunctionDef))
    story = ast.get_docstring(step) or ""
    for heading in ("Step granularity:", "Generation strategy:", "End condition:"):
        assert heading in story


@pytest.mark.parametrize("word", ["d'Or", "x\\n", "{x}", "a)b", "+__import__", "0x1", 'x"""y'])
def test_words_of_the_task_cannot_leave_their_strings(word: str) -> None:
    instruction = f"Write a paragraph with sentences having the last word to be '{word}', 'b'."
    try:
        source = write_program(instruction)
    except TaskNotUnderstood:
        return  # not one word for COLLIE
    tree = ast.parse(source)
    constants = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    assert word in constants
    names = {n.id for n in ast.walk(tree) if isinstance(n, ast.Name)}
    assert "__import__" not in names and "x" not in names


def test_hostile_words_at_random() -> None:
    rng = random.Random(0)
    for _ in range(200):
        word = "".join(rng.choice("ab'\"\\{}()#\n;.") for _ in range(6))
        try:
            source = write_program(f"Write a sentence containing '{word}'.")
        except TaskNotUnderstood:
            continue
        ast.parse(source)


def test_plan() -> None:
    planner = ExpertPlanner()
    plan = asyncio.run(planner.plan(Task("Write a sentence with 9 words."), ()))
    again = asyncio.run(planner.plan(Task("Write a sentence with 9 words."), ()))
    assert planner.name == plan.program.planner == "expert"
    assert plan.program.trusted and plan.program.hash == again.program.hash
    with pytest.raises(TaskNotUnderstood):
        asyncio.run(planner.plan(Task("Write a haiku."), ()))


def test_what_can_be_read_but_not_written_is_said() -> None:
    with pytest.raises(TaskNotUnderstood, match="has no program for it"):
        write_program("Write a paragraph with exactly 300 characters, containing 'sea'.")
