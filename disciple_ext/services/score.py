"""Scores of texts as potentials: a Python function, and a score for each step of a text."""

from __future__ import annotations

import inspect
import math
from abc import abstractmethod
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ..errors import UsageError
from .base import Service

__all__ = ["Score", "Scored", "Scorer", "Steps"]

_REMEMBERED = 16_384


@dataclass(frozen=True)
class Scored:
    """A text to score.

    Attributes:
        text: the text so far.
        about: what the program says that it is about, such as the problem that it solves.
        ended: whether the text is whole.
    """

    text: str
    about: str = ""
    ended: bool = False

    @classmethod
    def read(cls, payload: Any) -> Scored:
        """What a program's ``weigh`` sends.

        Raises:
            ValueError: it is something else.
        """
        match payload:
            case {"text": str(text)}:
                about, ended = str(payload.get("about") or ""), payload.get("ended") is True
                return cls(text, about, ended)
        raise ValueError("it scores texts: programs ask it by `await self.weigh(name)`")


class Scorer(Service):
    """A potential that is a score divided by a temperature.

    The log weight of a text is ``score / temperature``: a high temperature makes the score weak,
    a low one makes it decide. Scores of 0 change nothing.

    Attributes:
        temperature: above 0.
        purpose: what planners are told of it.
    """

    purpose = "a potential: `await self.weigh(name)`"

    def __init__(self, temperature: float = 1.0) -> None:
        if not (isinstance(temperature, int | float) and 0 < temperature < math.inf):
            raise UsageError(f"a temperature is a number above 0, not {temperature!r}")
        self.temperature = float(temperature)

    @abstractmethod
    def scores(self, texts: Sequence[Scored]) -> list[float]:
        """A score for each text; larger is better, minus infinity rules out."""

    def batch(self, payloads: Sequence[Any]) -> list[float]:
        """Natural log weights of the texts that programs sent."""
        return self.tempered(self.scores([Scored.read(payload) for payload in payloads]))

    def tempered(self, scores: Sequence[float]) -> list[float]:
        """Natural log weights of scores.

        Raises:
            ValueError: a score is NaN or plus infinity.
        """
        for score in scores:
            if math.isnan(score) or score == math.inf:
                raise ValueError(f"a score of {score}: give a finite one, or minus infinity")
        return [float(score) / self.temperature for score in scores]

    def rehearse(self, payload: Any) -> float:
        """A dry run weighs nothing."""
        return 0.0

    def rehearsing(self) -> Callable[[Any], float]:
        """What stands in for it in a dry run."""
        return self.rehearse


class Score(Scorer):
    """A Python function of a text as a potential.

    Args:
        function: the text to its score; with ``about=True``, of ``(text, about)``.
        temperature: divides the score.
        about: whether the function takes what the text is about, too.
    """

    def __init__(
        self, function: Callable[..., float], temperature: float = 1.0, *, about: bool = False
    ) -> None:
        super().__init__(temperature)
        self.function = function
        self.purpose += f". {inspect.getdoc(function) or ''}"
        self.about = about

    def scores(self, texts: Sequence[Scored]) -> list[float]:
        """The function's value for each text."""
        if self.about:
            return [float(self.function(t.text, t.about)) for t in texts]
        return [float(self.function(t.text)) for t in texts]


class Steps(Scorer):
    """A score for each step of a text, added up: what a process reward model gives.

    A step is a line. A line that is not yet finished counts nothing until the text has ended. Each
    step is scored once: ``scorer`` gets the step as its text, and as ``about`` what the text is
    about and all steps before this one.

    Args:
        scorer: what scores a step; its own temperature divides.
        separator: what ends a step.
    """

    def __init__(self, scorer: Scorer, separator: str = "\n") -> None:
        super().__init__(1.0)
        if not separator:
            raise UsageError("the separator of steps is a text of at least one character")
        self.scorer = scorer
        self.purpose = f"it scores each step of a text, a line. {scorer.purpose}"
        self.separator = separator
        self._known: OrderedDict[Scored, float] = OrderedDict()

    def scores(self, texts: Sequence[Scored]) -> list[float]:
        """The sum of the log weights of each text's steps."""
        cut = [self._steps(text) for text in texts]
        new = [s for s in dict.fromkeys(s for steps in cut for s in steps) if s not in self._known]
        if new:
            logs = self.scorer.tempered(self.scorer.scores(new))
            self._known.update(zip(new, logs, strict=True))
        sums = [math.fsum(self._known[step] for step in steps) for steps in cut]
        # After the sums: one batch may have more steps than are remembered.
        while len(self._known) > _REMEMBERED:
            self._known.popitem(last=False)
        return sums

    def _steps(self, text: Scored) -> list[Scored]:
        parts = text.text.split(self.separator)
        done = parts if text.ended else parts[:-1]
        found, before = [], f"{text.about}{self.separator}" if text.about else ""
        for part in done:
            if part.strip():
                found.append(Scored(part, before, True))
            before += part + self.separator
        return found
