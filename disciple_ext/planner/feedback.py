"""What a run showed, for whoever has to correct its program.

A :class:`Diagnosis` listens to a run and keeps little: how the particles ended and where, at which
step the weights collapsed and why, and the latest texts. :func:`judge` says what is wrong with a
run that went to its end. All of it is the program's claim, as events are.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Sequence
from dataclasses import dataclass

from ..records.events import (
    Event,
    Observer,
    ParticleFinished,
    ParticleState,
    Resampled,
    RunFinished,
    RunStarted,
    StepDone,
)
from ..records.result import Particle, Result
from ..text.shorten import without_middle

__all__ = ["Diagnosis", "judge", "outputs"]

_MOST = 6
"""Ways to end that are told apart; a program chooses its reasons, and could make them many."""
_CROWD = 8
"""Particles from which on a collapsed population is worth a word."""

_ADVICE = {
    "condition_false": "a condition that the Follower does not meet by chance must be made true: "
    "force the word, or offer it with ChoiceMask",
    "impossible_mask": "test the room that is left before the draw, or take one of these masks out "
    "of its way",
    "max_tokens": "the text was never ended: look at the test that leads to `await self.end()` "
    "(can it be true?), bound each loop, or raise max_tokens",
    "max_steps": "step was called again and again without an end: look at the test that leads to "
    "`await self.end()`",
    "timeout": "have the loop there leave, or ask the Follower for less",
}


@dataclass
class _End:
    """One way in which particles ended."""

    finish_reason: str
    line: int | None
    step: int
    example: str
    count: int = 0


@dataclass(frozen=True)
class _Fall:
    """The step at which the effective sample size fell most."""

    step: int
    before: float
    after: float
    causes: tuple[tuple[str, float, int], ...]

    @property
    def ratio(self) -> float:
        return self.after / max(self.before, 1e-9)


class Diagnosis(Observer):
    """An observer that keeps what went wrong in a run, in memory bounded by the particles.

    Attributes:
        began: whether the run began.
        over: whether it went to its end, whatever became of the particles.
    """

    def __init__(self, source: str) -> None:
        """Begin with the program's source, for the lines."""
        self.began = self.over = False
        self._step_line = _step_line(source)
        self._n = 0
        self._steps = self._tokens = self._well = 0
        self._ess = 0.0
        self._fall: _Fall | None = None
        self._ends: dict[tuple[str, int | None], _End] = {}
        self._waiting: list[ParticleFinished] = []
        self._states: tuple[ParticleState, ...] = ()

    def __call__(self, event: Event) -> None:
        """Hear of one event."""
        match event:
            case RunStarted(n=n):
                self.began = True
                self._n, self._ess = n, float(n)
            case ParticleFinished():
                # Kept until the step is over, whose states say in which line each particle was.
                self._waiting.append(event)
            case StepDone():
                self._step(event)
            case Resampled():
                # Resampling makes the weights equal; what falls after it is a new collapse.
                self._ess = float(self._n)
            case RunFinished():
                self.over = True

    def _step(self, done: StepDone) -> None:
        self._steps, self._tokens, self._well = done.step, done.tokens, done.finished
        for end in self._waiting:
            # The step's state knows the line in the program; the event has one only where it was
            # raised.
            state = done.particles[end.index] if end.index < len(done.particles) else None
            self._note(end, state.line if state is not None else end.line)
        self._waiting = []
        fall = _Fall(done.step, self._ess, done.ess, _causes(done.particles))
        # Where all have died, how they ended says more.
        if done.ess > 0.0 and (self._fall is None or fall.ratio < self._fall.ratio):
            self._fall = fall
        self._ess = done.ess
        self._states = done.particles or self._states

    def _note(self, end: ParticleFinished, line: int | None) -> None:
        if end.finish_reason == "ended":
            line = None
        elif line is None:
            line = self._step_line
        key = (end.finish_reason, line)
        if key not in self._ends and len(self._ends) >= _MOST:
            return
        known = self._ends.setdefault(key, _End(end.finish_reason, line, end.step, end.reason))
        known.count += 1

    # What it comes to -----------------------------------------------------------------------

    def ends(self, finish_reason: str | None = None) -> tuple[str, ...]:
        """How particles ended too early, one sentence for each way, the most frequent first.

        Args:
            finish_reason: only the ends of this kind.
        """
        told = []
        for end in sorted(self._ends.values(), key=lambda e: -e.count):
            if end.finish_reason == "ended" or finish_reason not in (None, end.finish_reason):
                continue
            where = f" in line {end.line}" if end.line is not None else ""
            fix = _ADVICE.get(end.finish_reason, "")
            if "prompt" in end.example[:20]:  # it has an advice of its own
                fix = ""
            often = "once" if end.count == 1 else f"{end.count} times"
            told.append(
                f"{often} a particle ended with {end.finish_reason}{where}, first at step "
                f"{end.step}: {without_middle(end.example, 500)}" + (f". Fix: {fix}" if fix else "")
            )
        return tuple(told)

    def sentences(self) -> tuple[str, ...]:
        """What the run showed, one sentence each."""
        if not self._steps:
            return ("no particle came to the end of its first step",)
        longest = max((len(state.text) for state in self._states), default=0)
        told = [
            f"{self._n} particles made {self._steps} steps and {self._tokens} tokens in all; "
            f"{self._well} ended well; the longest of the last texts has {longest} characters"
        ]
        told += self.ends()
        fall = self._fall
        # With fewer than four, or less than halved, a fall is no news to a planner.
        if fall is not None and self._n >= 4 and fall.ratio < 0.5:
            causes = "; ".join(
                f"{cause} "
                + (f"{mean:+.1f} on average" if math.isfinite(mean) else "")
                + (f" (zero for {zeros})" if zeros else "")
                for cause, mean, zeros in fall.causes
            )
            told.append(
                f"the weights collapsed most at step {fall.step}: the effective sample size fell "
                f"from {fall.before:.1f} to {fall.after:.1f}; natural log-weight changes of that "
                f"step: {causes or 'none'}"
            )
        return tuple(told)

    def texts(self) -> tuple[tuple[str, str], ...]:
        """The three best of the latest texts, each with its state."""
        ranked = sorted(self._states, key=lambda s: (s.log_weight, len(s.text)), reverse=True)
        found: dict[str, str] = {}
        for state in ranked:
            weight = f"log weight {state.log_weight:.1f}"
            if state.log_weight == -math.inf:
                weight = "dead"
            # Resampling makes copies: each text once, so that three say more than one.
            found.setdefault(state.text, weight if state.finished else f"unfinished, {weight}")
        return tuple(list(found.items())[:3])


def _causes(states: Sequence[ParticleState]) -> tuple[tuple[str, float, int], ...]:
    """Each cause of weight changes in a step: its mean finite sum, and the particles it killed."""
    sums: dict[str, list[float]] = {}
    for state in states:
        mine: dict[str, float] = {}
        for change in state.changes:
            mine[change.cause] = mine.get(change.cause, 0.0) + change.amount
        for cause, amount in mine.items():
            sums.setdefault(cause, []).append(amount)
    told = []
    for cause, amounts in list(sums.items())[:_MOST]:
        # A single dead particle would make the mean minus infinity; the dead are counted beside it.
        finite = [a for a in amounts if math.isfinite(a)]
        mean = sum(finite) / len(finite) if finite else math.nan
        told.append((cause, mean, len(amounts) - len(finite)))
    return tuple(told)


def judge(result: Result, source: str, warnings: Sequence[str] = ()) -> str:
    """What is wrong with a run that went to its end, or the empty string.

    A check or a verifier that accepts the answer settles it. Where neither says anything, a
    collapsed population or a likely mistake in the program is reason enough to try again.

    Args:
        result: what the run gave.
        source: the program.
        warnings: likely mistakes seen before the run.
    """
    # From here on in order of what the planner should mend first: the first that is wrong is told.
    alive = [p for p in result.particles if p.log_weight > -math.inf]
    if result.verified is False:
        rejected = without_middle(result.text or "", 300)
        return (
            f"the user's verifier rejected the answer {rejected!r}; read the "
            "task again, and compare the outputs with it"
        )
    if not any(p.text.strip() for p in alive):
        line = _step_line(source)
        return f"every finished text is empty; in step (line {line}), draw before `self.end()`"
    if alive and all(p.check is False for p in alive):
        line = _step_line(source, "check")
        return (
            f"check (line {line}) rejected every finished text, {len(alive)} of "
            f"{len(result.particles)} particles: make step write what check counts, or correct "
            "check if it counts otherwise than the task"
        )
    # Somebody vouches for the texts, so suspicions alone are no reason to pay for another program.
    if result.check is not None or result.verified is not None:
        return ""
    if warnings:
        return f"the program has no check of its texts, and a likely mistake: {warnings[0]}"
    if len(result.particles) >= _CROWD:
        line = _step_line(source)
        if len({p.text for p in alive}) == 1:
            return (
                "all particles wrote the same text, and no check accepts it; let step (line "
                f"{line}) leave more to the Follower, and define `check(self, text)`"
            )
        if result.ess < 1.5:
            return (
                f"one particle holds nearly all the weight (effective sample size {result.ess:.1f} "
                f"of {len(result.particles)}), and no check accepts its text; let step (line "
                f"{line}) constrain less at once, hint earlier, and define `check(self, text)`"
            )
    return ""


def outputs(particles: Sequence[Particle]) -> tuple[tuple[str, str], ...]:
    """Three of a finished run's texts, the heaviest first, each with its verdict."""
    alive = [p for p in particles if p.log_weight > -math.inf]
    said = {True: "check passed", False: "check rejected it", None: "no check"}
    found: dict[str, str] = {}
    for particle in sorted(alive, key=lambda p: -p.log_weight):
        size = f"{len(particle.text)} characters"
        found.setdefault(particle.text, f"{said[particle.check]}, {size}")
    return tuple(list(found.items())[:3])


def _step_line(source: str, name: str = "step") -> int:
    """The line that defines a method, 1 where there is none."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return 1
    kinds = (ast.FunctionDef, ast.AsyncFunctionDef)
    found = [n.lineno for n in ast.walk(tree) if isinstance(n, kinds) and n.name == name]
    # The last one: a later definition of a method is the one that Python keeps.
    return found[-1] if found else 1
