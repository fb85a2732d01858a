"""What is looked at before a follower runs a program: the static check and the dry run.

The dry run is a short run in the same sandbox with a random model over the follower's own tokens.
A random model writes odd texts, so it raises false alarms. A program is therefore stopped only for
what no better text would mend; everything else becomes a warning, which the planner sees if the
real run fails.
"""

from __future__ import annotations

from dataclasses import replace

from ..errors import DiscipleError, LimitExceeded, ProgramCrashed, ProgramError, ProgramRejected
from ..follower.random import RandomFollower
from ..planner.feedback import Diagnosis
from ..records.program import Program
from ..records.result import Result
from ..records.task import Task
from ..samplers.importance import ImportanceSampler
from ..sandbox.check.check import check
from .launch import choose_sandbox, launch
from .setting import LoadedSetting

__all__ = ["inspect_source", "rehearse"]

_PARTICLES = 4
_SECONDS = 2.0
_STEPS = 400

_NEVER_THE_TEXT = frozenset(
    """NameError UnboundLocalError TypeError AttributeError ImportError ModuleNotFoundError
    PermissionError RecursionError MemoryError NotImplementedError SystemExit""".split()
)
"""Exceptions that say something about the code rather than about the text it met."""


def inspect_source(program: Program) -> tuple[str, ...]:
    """The static check's warnings.

    Raises:
        ProgramRejected: it found what cannot work; the message has all findings.
    """
    found = check(program.source)
    fatal = [finding for finding in found if finding.fatal]
    if fatal:
        # All findings in one message: each one by itself would cost a call of the planner.
        told = ". ".join(str(finding) for finding in found[:8])
        raise ProgramRejected(f"the static check found: {told}", line=fatal[0].line)
    return tuple(str(finding) for finding in found)


async def rehearse(program: Program, task: Task, setting: LoadedSetting) -> tuple[str, ...]:
    """Run a program for a moment with a random model.

    Args:
        program: the program.
        task: the task, whose own limits hold where they are lower.
        setting: the setting of the run to come; its follower is not asked.

    Returns:
        Warnings, one sentence each.

    Raises:
        ProgramError: the program failed in a way that does not depend on the text.
        LimitExceeded: the program computes without awaiting anything.
    """
    limits = task.limits
    short = replace(
        limits,
        timeout=min(_SECONDS, limits.timeout),
        max_steps=min(_STEPS, limits.max_steps),
    )
    diagnosis = Diagnosis(program.source)
    ours = type(setting.sampler).__module__.startswith("disciple_ext.samplers.")
    dry = replace(
        setting,
        follower=RandomFollower(setting.follower, setting.seed),
        # Each particle is for itself, so that none hides another's end.
        sampler=ImportanceSampler() if ours else setting.sampler,
        observers=(diagnosis,),
        # A judge's call would be paid for: what can stand in for itself does.
        services=setting.services.rehearsing(),
    )
    try:
        await (await choose_sandbox(program, dry)).make_ready(dry)
        dry_task = replace(task, n=min(_PARTICLES, task.n), limits=short, verify=None)
        result = await launch(program, dry_task, dry)
    except DiscipleError as error:
        if _sure(error):
            error.args = (f"in a dry run with a random model, {error}",)
            raise
        return _warnings(diagnosis, error)
    return _warnings(diagnosis, None, result)


def _sure(error: DiscipleError) -> bool:
    """Whether an error would come whatever the follower wrote."""
    if isinstance(error, LimitExceeded):
        # A line is named only where the program was busy; without one, it waited for the model.
        return error.line is not None
    if isinstance(error, ProgramRejected):
        return True
    if not isinstance(error, ProgramCrashed):
        return False
    if not error.exception or not error.text:  # its process ended, or nothing had been drawn yet
        return True
    # `re.match(...)` gives None on a text that does not match.
    return error.exception in _NEVER_THE_TEXT and not error.of_none


def _warnings(
    diagnosis: Diagnosis, error: DiscipleError | None, result: Result | None = None
) -> tuple[str, ...]:
    told = []
    # A run that was over has its ends in the diagnosis, which says more than the error.
    if isinstance(error, ProgramError) and not diagnosis.over:
        told.append(str(error))
    told += diagnosis.ends("impossible_mask")
    if result is not None and all(p.check is False for p in result.particles if p.weight > 0):
        told.append("check rejected every text")
    return tuple(f"dry run with a random model (perhaps a false alarm): {t}" for t in told)
