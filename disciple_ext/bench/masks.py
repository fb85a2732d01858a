"""What a step under a formal constraint costs, and what it costs with genlm-control.

The model is left out: its logits are made up, and the sums that an unmasked draw needs, too, are
measured on their own and taken off. A step of ours is what a run does for a particle: the mask, its
exact mass and a draw (both for all particles at once, as in the engine), consuming the token, and a
copy of the mask's state. genlm-control gets normalised log-probabilities for nothing, at the places
that ours comes to.
"""

from __future__ import annotations

import asyncio
import random
import string
import time
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import torch

from ..errors import UsageError
from ..follower.engine.drawing import Distributions, MaskCache, Query, Row, draw
from ..model.base import BaseModel
from ..model.context import FollowerContext
from ..model.masks.formal import FormalMask, GrammarMask, JsonMask, RegexMask
from ..model.masks.matching import grammars
from ..protocol.vocabulary import Vocabulary
from .log import Log, Measurement

__all__ = ["CASES", "PACKAGES", "ROWS", "Place", "Potentials", "Timed", "ours", "run", "vocabulary"]

PACKAGES = ("llguidance", "genlm-control")
"""What a log of this benchmark names with its versions, beside what all do."""

PARTICLES = 32
SIZES = {"8k": 8_000, "32k": 32_000, "128k": 128_000}
# Two levels and brackets: no regular expression can count these.
ARITHMETIC = """start: sum
sum: product | sum "+" product | sum "-" product
product: atom | product "*" atom
atom: NUMBER | "(" sum ")"
NUMBER: /[0-9]+/
"""
PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 40},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 3},
        "kind": {"enum": ["person", "place"]},
    },
    "required": ["name", "age", "tags", "kind"],
    "additionalProperties": False,
}
DATE = r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
SENTENCE = r"[A-Z][a-z]*( [a-z]+){3,8}[.!?]"
COUNTED = r"[ -~]{10,200}"
CASES: dict[str, Callable[[Any], FormalMask]] = {
    "date": lambda particle: RegexMask(particle, DATE),
    "sentence": lambda particle: RegexMask(particle, SENTENCE),
    "counted": lambda particle: RegexMask(particle, COUNTED),
    "arithmetic": lambda particle: GrammarMask(particle, ARITHMETIC),
    "json": lambda particle: JsonMask(particle, PERSON),
}
ROWS = ("flat", "aligned")
"""A model that knows nothing of the constraint, or one with 80 % of its mass on what it allows."""


@dataclass(frozen=True)
class Place:
    """Where a particle stood: its tokens, and what was allowed there."""

    tokens: tuple[int, ...]
    allowed: Any


@dataclass
class Timed:
    """Seconds of a particle's step, and some of the places it came to."""

    build: float
    steps: list[float] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


def vocabulary(name: str) -> Vocabulary:
    """A made-up vocabulary of the size of this name, of the kinds of tokens that real ones have.

    All bytes, numbers of two and three digits, pairs of marks, and words of 2 to 12 letters: small
    or with a capital, half of them after a space.

    Raises:
        UsageError: there is none of that name.
    """
    if name not in SIZES:
        raise UsageError(f"there is no vocabulary {name!r}; one of {', '.join(SIZES)}")
    source = random.Random(0)
    tokens = [b"", b"", b"", *(bytes([byte]) for byte in range(256))]
    tokens += [b"%02d" % n for n in range(100)] + [b"%03d" % n for n in range(1000)]
    tokens += [f"{a}{b}".encode() for a in string.punctuation for b in " " + string.punctuation]
    words: dict[bytes, None] = {}
    while len(tokens) + len(words) < SIZES[name]:
        word = "".join(source.choices(string.ascii_lowercase, k=source.randint(2, 12)))
        word = word.capitalize() if source.random() < 0.2 else word
        words[f"{' ' if source.random() < 0.5 else ''}{word}".encode()] = None
    return Vocabulary([*tokens, *words], eos=[1], special=[0, 1, 2], encode=lambda text: [])


class _Follower:
    """All that a particle under a mask needs of a follower."""

    def __init__(self, tokens: Vocabulary) -> None:
        self.vocabulary = tokens


class _Particle(BaseModel):
    async def step(self) -> None:
        """Nothing: it is moved from outside."""


def ours(case: str, tokens: Vocabulary, steps: int, seed: int = 0) -> Timed:
    """Write texts under a case's constraint, and time each step."""
    begun = time.process_time()
    context = FollowerContext(_Follower(tokens), (0,))
    particle = _Particle(context)
    start = CASES[case](particle)
    timed = Timed(time.process_time() - begun)
    masks, cache = [start.clone() for _ in range(PARTICLES)], MaskCache()
    texts: list[tuple[int, ...]] = [()] * PARTICLES
    source = np.random.default_rng(seed)
    rows = torch.from_numpy(source.normal(0, 0.5, (PARTICLES, tokens.size)).astype(np.float32))
    text = tokens.text_mask
    for _ in range(steps):
        logits = rows[torch.from_numpy(source.permutation(PARTICLES))]
        uniforms = source.random(PARTICLES).tolist()
        begun = time.process_time()
        Distributions(logits, cache)
        # What an unmasked draw needs, too: it is taken off below.
        bare = time.process_time() - begun
        begun = time.process_time()
        allowed = [mask.allowed(tokens) for mask in masks]
        batch = Distributions(logits, cache, list(enumerate(allowed)))
        queries = [Query(Row(batch, i), mask) for i, mask in enumerate(allowed)]
        drawn, _, _ = draw(queries, uniforms, cache)
        for mask, token in zip(masks, drawn, strict=True):
            mask.follow(token, tokens.tokens[token])
        masks = [mask.clone() for mask in masks]
        timed.steps.append((time.process_time() - begun - bare) / PARTICLES)
        at = int(source.integers(PARTICLES))
        timed.places.append(Place(texts[at], allowed[at]))
        for i, token in enumerate(drawn):
            texts[i] += (token,)
            # A text that is over begins anew, so that every step has all particles.
            if token in tokens.eos or not masks[i].allowed(tokens) & text:
                masks[i], texts[i] = start.clone(), ()
    return timed


# genlm-control ----------------------------------------------------------------------------------


class Potentials:
    """A case's constraint as genlm-control has it, over the same tokens."""

    def __init__(self, case: str, tokens: Vocabulary) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self._make(case, tokens)

    def _make(self, case: str, tokens: Vocabulary) -> None:
        from genlm.control import AWRS, BoolCFG, BoolFSA, JsonSchema, Potential

        make = {
            "date": lambda: BoolFSA.from_regex(DATE),
            "sentence": lambda: BoolFSA.from_regex(SENTENCE),
            "counted": lambda: BoolFSA.from_regex(COUNTED),
            "arithmetic": lambda: BoolCFG.from_lark(ARITHMETIC),
            "json": lambda: JsonSchema(PERSON),
        }
        self.tokens = tokens
        self.ids = [i for i in range(tokens.size) if tokens.tokens[i]]

        class Flat(Potential):  # type: ignore[misc]
            """The model: log-probabilities that are ready."""

            async def prefix(self, context: Any) -> float:
                return 0.0

            complete = prefix

            async def logw_next(self, context: Any) -> Any:
                return self.make_lazy_weights(self.ready)

        self.model = Flat([tokens.tokens[i] for i in self.ids])
        self.model.ready = np.zeros(len(self.ids) + 1)
        begun = time.process_time()
        # They read bytes as integers, of which a token is made.
        self.condition = make[case]().coerce(self.model, f=b"".join)
        self.build = time.process_time() - begun
        self.sampler = AWRS(self.model, self.condition, autobatch=False, seed=0)

    def at(self, place: Place, rows: str, source: np.random.Generator) -> list[bytes]:
        """Make the model ready for a place; returns the context there."""
        logits = source.normal(0, 0.5, len(self.ids) + 1)
        if rows == "aligned":
            inside = np.zeros(len(self.ids) + 1, dtype=bool)
            inside[:-1] = place.allowed.array[self.ids]
            inside[-1] = any(eos in place.allowed for eos in self.tokens.eos)
            weights = np.exp(logits)
            share = weights[inside].sum() / weights.sum()
            logits[inside] += np.log(0.8 / share)
            # Where everything is allowed, there is nothing outside; the log of 0 must not spoil the
            # row.
            logits[~inside] += np.log(0.2 / max(1e-300, 1 - share))
        self.model.ready = logits - np.logaddexp.reduce(logits)
        return [self.tokens.tokens[i] for i in place.tokens]

    def timed(
        self, places: Iterable[tuple[Place, str]], full: bool, seconds: float, seed: int = 0
    ) -> list[float]:
        """Seconds of each AWRS draw, or of each set of weights over the vocabulary.

        Args:
            places: where, and with what rows.
            full: whether all the weights are asked for.
            seconds: time after which no further place is begun.
            seed: seed of the rows.
        """
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return asyncio.run(self._timed(places, full, seconds, seed))

    async def _timed(
        self, places: Iterable[tuple[Place, str]], full: bool, seconds: float, seed: int
    ) -> list[float]:
        source, out, end = np.random.default_rng(seed), [], time.process_time() + seconds
        for place, rows in places:
            context = self.at(place, rows, source)
            begun = time.process_time()
            await (self.condition.logw_next(context) if full else self.sampler.sample(context))
            out.append(time.process_time() - begun)
            if time.process_time() > end:
                break
        return out


# The whole benchmark ------------------------------------------------------------------------------


def run(
    cases: Iterable[str],
    sizes: Iterable[str],
    out: Path | None,
    progress: Callable[[Measurement, int, int], None],
    steps: int = 200,
    seconds: float = 8.0,
) -> list[Measurement]:
    """Measure what a log lacks.

    Args:
        cases: names of :data:`CASES`.
        sizes: names of vocabularies.
        out: directory of the log, or None.
        progress: called with each measurement, and how many are done of how many.
        steps: steps of ours, of 32 particles each.
        seconds: CPU seconds for each kind of measurement of genlm-control's.

    Raises:
        UsageError: a name is unknown, or the log is of another machine.
    """
    if unknown := [case for case in cases if case not in CASES]:
        raise UsageError(f"there is no case {unknown[0]!r}; one of {', '.join(CASES)}")
    # CPU time is compared: threads that wait for one another would count in it.
    torch.set_num_threads(1)
    log = Log(out, packages=PACKAGES)
    plan = [(size, case) for size in sizes for case in cases]
    tokens, of_size = None, ""
    for done, (size, case) in enumerate(plan, 1):
        if any(row.case == case and row.model == size for row in log.rows.values()):
            continue
        if size != of_size:
            tokens, of_size = vocabulary(size), size
            # Before the clock: it is built once for each vocabulary, not for each mask.
            grammars(tokens)
        assert tokens is not None
        # All of a case or nothing: what is in the log is not measured again.
        for row in list(_measure(case, size, tokens, steps, seconds)):
            log.add(row)
            progress(row, done, len(plan))
    return list(log.rows.values())


def _measure(
    case: str, size: str, tokens: Vocabulary, steps: int, seconds: float
) -> Iterable[Measurement]:
    def rows(name: str, build: float | None, times: list[float]) -> Iterable[Measurement]:
        found = {"p50": np.quantile(times, 0.5), "p99": np.quantile(times, 0.99), "build": build}
        for metric, value in found.items():
            if value is not None:
                number = float(value)
                yield Measurement(case, size, 1, steps, name, metric, 0, number, len(times))

    timed = ours(case, tokens, steps)
    yield from rows("ours", timed.build, timed.steps)
    if find_spec("genlm.control") is None:
        return
    theirs = Potentials(case, tokens)
    for kind in ROWS:
        places = [(place, kind) for place in timed.places]
        times = theirs.timed(places, False, seconds)
        yield from rows(f"awrs-{kind}", theirs.build, times)
    # Each context once: theirs caches what it has computed for one.
    fresh = {place.tokens: (place, "flat") for place in timed.places}
    yield from rows("weights", None, theirs.timed(fresh.values(), True, seconds))
