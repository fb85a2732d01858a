"""The events of a run, in the order in which they happen.

Events are data: observers get copies, may keep them, and cannot alter the run. What a program
chose (texts, weights, reasons) is its claim, never the host's.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from .particle import Particle

__all__ = [
    "AttemptFailed",
    "AttemptStarted",
    "Event",
    "Listener",
    "Observer",
    "ParticleFinished",
    "ParticleState",
    "PlannerAnswered",
    "PlannerWaiting",
    "PlannerWriting",
    "PopulationGiven",
    "ProgramPrinted",
    "Resampled",
    "RunFinished",
    "RunStarted",
    "StepDone",
    "WeightChange",
    "as_observer",
]


@dataclass(frozen=True)
class AttemptStarted:
    """The planner is asked for program number ``attempt`` of at most ``retries``."""

    attempt: int
    retries: int


@dataclass(frozen=True)
class PlannerAnswered:
    """The planner gave a program.

    Attributes:
        attempt: number of the attempt, from 1.
        source: the program.
        seconds: wall-clock seconds that it took.
        cost: US dollars of the call, or None where that is unknown.
    """

    attempt: int
    source: str
    seconds: float
    cost: float | None = None


@dataclass(frozen=True)
class PlannerWaiting:
    """The planner's endpoint is to be asked again, after a wait.

    Attributes:
        seconds: how long, where the endpoint said so, or None.
        why: what the endpoint answered, such as ``"HTTP 429"``.
    """

    seconds: float | None
    why: str


@dataclass(frozen=True)
class PlannerWriting:
    """The planner is writing its answer.

    Attributes:
        characters: characters of it so far, thinking included.
    """

    characters: int


@dataclass(frozen=True)
class AttemptFailed:
    """The attempt ended in an error, which goes back to the planner."""

    attempt: int
    error: str
    kind: str


@dataclass(frozen=True)
class RunStarted:
    """A sampler starts with ``n`` particles.

    Attributes:
        n: particles asked for.
        sampler: name of the sampler.
        timeout: wall-clock seconds that the run may take.
    """

    n: int
    sampler: str
    timeout: float


@dataclass(frozen=True)
class WeightChange:
    """One update of a particle's weight.

    Attributes:
        cause: what made it: ``draw``, ``branch``, ``force``, ``observe``, ``end``, ``score``,
            ``twist`` or ``weigh``; where the particle died, its finish reason.
        amount: natural log of the factor.
        line: program line that asked for it (1-based), or None. This and what follows is told
            only where an :class:`Observer` wants the ``detail``, for it takes time.
        masks: the masks in force, outermost first, or the empty string.
        what: what was drawn from, forced or observed, in a few words, or the empty string.
    """

    cause: str
    amount: float
    line: int | None = None
    masks: str = ""
    what: str = ""


@dataclass(frozen=True)
class ParticleState:
    """A particle after a step.

    Attributes:
        text: its text so far.
        log_weight: natural log of its weight.
        log_prior: natural log-probability, under the prior, of what the step added.
        log_proposal: the same under the proposal.
        changes: the weight updates of the step.
        hint: the hint in force, or the empty string.
        finished: whether it has finished.
        line: program line it stopped at (1-based), or None.
        origin: step and index at which it, or the particle that it is a clone of, was last told
            of, or None where it is new.
    """

    text: str
    log_weight: float
    log_prior: float
    log_proposal: float
    changes: tuple[WeightChange, ...]
    hint: str
    finished: bool
    line: int | None
    origin: tuple[int, int] | None = None


@dataclass(frozen=True)
class StepDone:
    """Every particle that could step has stepped.

    Attributes:
        step: number of the step, from 1.
        alive: particles that are neither finished nor dead.
        finished: particles that ended with positive weight.
        ess: effective sample size of the weights, in [0, n].
        best_text: text of the particle with the largest weight.
        tokens: follower tokens of the whole run so far.
        particles: each particle's state, or empty where no observer wants the detail, or where a
            run in the sandbox has sent a quarter of what it may.
    """

    step: int
    alive: int
    finished: int
    ess: float
    best_text: str
    tokens: int
    particles: tuple[ParticleState, ...] = ()


@dataclass(frozen=True)
class Resampled:
    """Particles were replaced by clones.

    Attributes:
        step: the step after which it happened.
        ancestors: for each new particle, the index of the old one it is a clone of.
        ess: effective sample size before.
    """

    step: int
    ancestors: tuple[int, ...]
    ess: float


@dataclass(frozen=True)
class ParticleFinished:
    """One particle finished or died.

    Attributes:
        index: its index in the population.
        step: the step that was its last.
        text: its text.
        log_weight: natural log of its weight.
        finish_reason: why it ended, as a word.
        reason: the same for a person, with the line and the text.
        cause: what the program asked for that ended it with weight zero, or the empty string.
        line: program line of the cause (1-based), or None.
    """

    index: int
    step: int
    text: str
    log_weight: float
    finish_reason: str
    reason: str
    cause: str = ""
    line: int | None = None


@dataclass(frozen=True)
class PopulationGiven:
    """The sampler has given its population.

    Attributes:
        origins: for each of its particles the step and index at which it was last told of, or
            None where it never was.
    """

    origins: tuple[tuple[int, int] | None, ...]


@dataclass(frozen=True)
class ProgramPrinted:
    """The program printed something, which reaches no terminal unless an observer shows it."""

    text: str


@dataclass(frozen=True)
class RunFinished:
    """The sampler is done.

    Attributes:
        log_evidence: natural log of the estimated evidence, or None.
        ess: effective sample size of the final weights.
        tokens: follower tokens of the run.
        seconds: wall-clock seconds.
        particles: the population, each particle with its share of the weight and its verdict.
    """

    log_evidence: float | None
    ess: float
    tokens: int
    seconds: float
    particles: tuple[Particle, ...] = ()


Event = (
    AttemptStarted
    | PlannerWaiting
    | PlannerWriting
    | PlannerAnswered
    | AttemptFailed
    | RunStarted
    | StepDone
    | Resampled
    | ParticleFinished
    | PopulationGiven
    | ProgramPrinted
    | RunFinished
)

Listener = Callable[[Event], None]
"""Any callable that takes events; wherever it is given, :func:`as_observer` adapts it."""


@runtime_checkable
class Observer(Protocol):
    """Hears every event of a run; a callable with this attribute is one.

    Attributes:
        detail: whether to be told where each change of a weight comes from, which takes time.
    """

    detail: bool = False

    def __call__(self, event: Event) -> None:
        """Hear of one event."""


def as_observer(listener: Listener) -> Observer:
    """The observer itself, or one that passes each event on to a plain callable."""
    return listener if isinstance(listener, Observer) else _Plain(listener)


class _Plain(Observer):
    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def __call__(self, event: Event) -> None:
        self._listener(event)
