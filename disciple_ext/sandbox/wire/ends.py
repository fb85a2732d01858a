"""How a run ends, as its worker says it: the particles, or the error."""

from __future__ import annotations

from ...errors import (
    DiscipleError,
    FollowerError,
    LimitExceeded,
    ProgramCrashed,
    ProgramError,
    ProgramRejected,
    SamplerError,
    ServiceError,
    WrongFamily,
)
from ...records.particle import FINISH_REASONS, Particle
from ...text.shorten import shortened
from .checks import (
    as_count,
    as_dict,
    as_list,
    as_log,
    as_optional_count,
    as_share,
    as_text,
    as_verdict,
    read_json,
)
from .frames import Malformed

__all__ = ["MAX_PARTICLES", "read_error", "read_outcome"]

MAX_PARTICLES = 100_000


def read_outcome(payload: bytes) -> tuple[tuple[Particle, ...], float | None]:
    """The particles of a run, without shares of the weight, and the log evidence."""
    data = as_dict(read_json(payload))
    rows = as_list(data.get("particles"), MAX_PARTICLES)
    evidence = data.get("log_evidence")
    particles = []
    for row in map(as_dict, rows):
        reason = row.get("finish_reason")
        # The type first: a forged list or object cannot be looked up in a set.
        if not isinstance(reason, str) or reason not in FINISH_REASONS:
            raise Malformed("an unknown finish reason")
        particles.append(
            Particle(
                text=as_text(row.get("text")),
                log_weight=as_log(row.get("log_weight")),
                # A share of the whole is for the host to compute, from the log weights.
                weight=0.0,
                check=as_verdict(row.get("check")),
                finish_reason=reason,
                reason=as_text(row.get("reason")),
                tokens=as_count(row.get("tokens"), 2**31),
                log_prob=None if row.get("log_prob") is None else as_log(row["log_prob"]),
                lost_mass=as_share(row.get("lost_mass", 0.0)),
            )
        )
    return tuple(particles), None if evidence is None else as_log(evidence)


_ERRORS: dict[str, type[ProgramError]] = {
    "ProgramCrashed": ProgramCrashed,
    "ProgramRejected": ProgramRejected,
    "WrongFamily": WrongFamily,
}


def read_error(
    payload: bytes, failure: FollowerError | ServiceError | None, seconds: float
) -> DiscipleError:
    """The error that ended a run in the worker.

    Args:
        payload: the message.
        failure: the last error of the follower or of a service, if any.
        seconds: the run's time limit.
    """
    data = as_dict(read_json(payload))
    message = shortened(as_text(data.get("message", "")), 4000)
    # The host's own error, and only where it has seen one: a program may claim any type.
    if failure is not None and data.get("type") == type(failure).__name__:
        return failure
    if data.get("type") == "SamplerError":
        return SamplerError(message)
    if data.get("type") == "Busy":
        return LimitExceeded.timeout(seconds, as_optional_count(data.get("line")))
    # str: a forged type may be an object, which cannot be looked up.
    kind = _ERRORS.get(str(data.get("type")), ProgramCrashed)
    return kind(
        message,
        line=as_optional_count(data.get("line")),
        traceback=shortened(as_text(data.get("traceback")), 20_000),
        particle=as_optional_count(data.get("particle")),
        step=as_optional_count(data.get("step")),
        text=None if data.get("text") is None else as_text(data["text"]),
        exception=as_text(data.get("exception", ""), 200),
        of_none=data.get("of_none") is True,
    )
