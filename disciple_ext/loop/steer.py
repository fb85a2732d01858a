"""The outer loop: a task to a program to an answer (the paper's Algorithm 1).

This is the only place where planner, sandbox, sampler and follower meet.
"""

from __future__ import annotations

import asyncio
import time
import warnings
from collections.abc import Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

from ..errors import DiscipleError, UsageError
from ..planner.base import Plan, Planner, PlannerLike
from ..planner.purse import Purse
from ..protocol.measure import BaseMeasure
from ..records.events import AttemptStarted, Listener, PlannerAnswered
from ..records.program import Program
from ..records.result import Result
from ..records.task import Task, Verifier
from ..registry.plugins import Registry, load_plugins
from ..run.launch import choose_sandbox, launch, on_the_loop, prestart
from ..run.setting import LoadedSetting
from ..run.verify import check_verifier, verified
from ..samplers.base import Sampler
from ..services.batching import Services
from ..trace.record import Recorder
from .history import History
from .setup import (
    Loading,
    check_follower,
    chosen_planner,
    equipped,
    limited,
    load_follower,
    recorder_for,
    setting_of,
)
from .trial import Trial

__all__ = ["aplan", "arun_program", "aself_steer", "run_program", "self_steer"]


def self_steer(task: str | Task, **options: Any) -> Result:
    """Write what ``task`` asks for. The synchronous form of :func:`aself_steer`."""
    return _wait(aself_steer(task, **options))


def run_program(program: Program | str, task: str | Task = "(none)", **options: Any) -> Result:
    """Run a given program. The synchronous form of :func:`arun_program`."""
    return _wait(arun_program(program, task, **options))


# Long: the reference of its many arguments is its docstring.
async def aself_steer(
    task: str | Task,
    *,
    planner: str | PlannerLike = "expert",
    follower: Any = None,
    sampler: str | Sampler = "smc",
    n: int | None = None,
    seed: int = 0,
    measure: BaseMeasure | Mapping[str, Any] | None = None,
    timeout: float | None = None,
    max_tokens: int | None = None,
    retries: int = 3,
    max_cost: float | Purse | None = None,
    library: str = "off",
    sandbox: str | None = None,
    services: Mapping[str, Any] | None = None,
    verify: Verifier | None = None,
    dry_run: bool = True,
    on_event: Listener | None = None,
    trace: bool | Recorder = False,
    registry: Registry | None = None,
) -> Result:
    """Write what ``task`` asks for: plan, run, and tell the planner what went wrong.

    Args:
        task: what to write, in plain language, or a :class:`Task` with limits of its own.
        planner: ``"expert"`` (offline), ``"openai:MODEL"``, ``"replay:DIR"``, ``"follower"``
            (the follower writes the program, too), or a :class:`Planner`.
        follower: ``"smollm2"``, ``"embedded"``, ``"gguf:PATH"``, ``"hf:ID_OR_PATH"``,
            ``"vllm:ID_OR_PATH"``, a Follower, or a loaded ``CachedCausalLM`` or ``AsyncLM``. None
            is what ``DISCIPLE_FOLLOWER`` names, else SmolLM2 where it was added
            (``disciple models add smollm2``), else the embedded follower.
        sampler: ``"smc"``, ``"is"``, ``"rs"`` or a plugin's name, with options if need be, as in
            ``"smc:ess_threshold=0.7,scheme=systematic"``, or a :class:`Sampler`.
        n: particles; 32 unless the task says otherwise.
        seed: seed of every draw: one seed gives one result on one machine.
        measure: the base measure: a :class:`~disciple_ext.BaseMeasure`, or what it has other than
            the follower's own, as in ``{"temperature": 0.7, "top_p": 0.95, "alpha": 1.2}`` (with
            ``top_k``, ``min_p``, and each of the four with ``proposal_`` before it). A
            follower's spec may have the same at its end: ``"smollm2,temperature=1"``.
        timeout: wall-clock seconds for one run of a program; 120 unless the task says otherwise.
        max_tokens: tokens of text a particle may have, or None for what the program says.
        retries: programs in all, the first included (R in Algorithm 1).
        max_cost: US dollars that the planner's calls may cost (or a purse that runs share); a
            call that may cost more than is left is not made.
        library: ``"on"`` runs programs that passed on such tasks before, without a call of the
            planner, and keeps those that pass now; ``"read"`` keeps none; or ``"off"``.
        sandbox: ``"landlock+seccomp"``, ``"seccomp"``, ``"process"`` or ``"none"``. None is
            the first, or for programs that ship with the package the strongest to be had.
        services: what programs may call on the host, by name: a potential, a judge, a function
            (:mod:`disciple_ext.services`), or the spec of one, such as ``"judge:gpt-4o"``.
        verify: the user's own verifier of an answer; see :class:`Task`.
        dry_run: whether a program that a model wrote is first run for a moment with a random
            model, to find its mistakes before the follower is asked.
        on_event: called with each event of the run.
        trace: whether the result carries a record of what inference did, for
            :meth:`Result.show`; a :class:`~disciple_ext.trace.record.Recorder` of your own also
            has it where an error ends the run.
        registry: plugins to use; the installed ones where it is None.

    Returns:
        The result of the first program whose texts nothing speaks against. Where a check or the
        verifier rejects every text of each program, the best result (the last of equals);
        ``attempts`` says why each other one was not good enough.

    Raises:
        UsageError: an argument is wrong, or the planner cannot read the task.
        PlannerError: the planner gave no program.
        ProgramError: no program's run came to its end; the last one's error.
        LimitExceeded: time ran out before any particle ended, or the next call of the planner
            may cost too much.
        FollowerError: the follower cannot be loaded or evaluated.
        SandboxUnavailable: the sandbox level cannot be had.

    Every error carries the ``attempts`` that were finished before it, their ``usage`` and ``cost``,
    and as ``result`` the best of those that would not quite do.
    """
    task = limited(task, n, timeout, max_tokens, verify)
    if retries < 1:
        raise UsageError(f"retries must be at least 1, not {retries}")
    # All that can be refused for nothing is refused here, before a call is paid for.
    if task.verify is not None:
        check_verifier(task.verify)
    purse = Purse(max_cost) if isinstance(max_cost, float | int) else max_cost
    registry = registry or load_plugins()
    recorder = recorder_for(trace, task, seed)
    setting = setting_of(registry, sampler, seed, sandbox, on_event, services, recorder, measure)
    check_follower(registry, follower)
    chosen = chosen_planner(registry, planner)
    # The zygote takes up to half a second: it starts now, while the planner is asked.
    prestart(setting)
    load = Loading(registry, follower, setting)
    trusted = chosen.trusted
    if not trusted:
        # Refuse before a program is paid for.
        await choose_sandbox(Program("", planner=chosen.name), setting)
        # The expert costs nothing, and may refuse a task sooner than a model is loaded.
        await load()
    if chosen.needs_follower:
        # Its draws go over the shared loop, where they join the batches of the runs.
        # A planner has a temperature of its own: the base measure is for texts.
        chosen = chosen.bind(await load.follower(), on_the_loop)
    # After `trusted` was read: a LibraryPlanner is never trusted, and the expert behind it is.
    chosen = equipped(chosen, registry, library, setting.services)
    history = History(purse, setting.emit)
    best = await _steer(task, chosen, load, history, retries, trusted=trusted, dry_run=dry_run)
    return _recorded(best, recorder, await load())


async def _steer(
    task: Task,
    planner: Planner,
    load: Loading,
    history: History,
    retries: int,
    *,
    trusted: bool,
    dry_run: bool,
) -> Result:
    """Algorithm 1: ask for a program, try it, and ask again with what went wrong, R times.

    Raises:
        DiscipleError: no attempt's run came to its end, one failed for which no program is to
            blame, or the follower cannot be loaded, which is no attempt. It carries the attempts.
    """
    number, emit = 0, load.setting.emit
    while history.asked < retries:
        number += 1
        # The second number is how many attempts there may be: those of a library come on top of R.
        emit(AttemptStarted(number, retries + number - 1 - history.asked))
        begun = time.monotonic()
        plan = await history.ask(planner, task)
        emit(PlannerAnswered(number, plan.program.source, time.monotonic() - begun, plan.cost))
        # A library's programs are a model's, too.
        trial = Trial(number, plan, by_model=not trusted or not plan.asked, listens=planner.listens)
        try:
            outcome = await trial.run(task, load, dry_run=dry_run)
        except DiscipleError as error:
            # The follower cannot be loaded: no program was tried, and none is to blame.
            history.close(error)
            raise
        history.add(trial, outcome)
        _learn(planner, task, plan.program, outcome.passed)
        if outcome.accepted or not outcome.retry:
            break
    # A result of an earlier attempt is better than an error, unless the error is not a program's.
    if outcome.error is not None and (outcome.final or history.best is None):
        history.close(outcome.error)
        raise outcome.error
    assert history.best is not None
    return history.settled(history.best)


async def aplan(
    task: str | Task,
    *,
    planner: str | PlannerLike = "expert",
    follower: Any = None,
    max_cost: float | None = None,
    on_event: Listener | None = None,
    registry: Registry | None = None,
) -> Plan:
    """Ask for the program of a task, and do not run it; arguments as for :func:`aself_steer`."""
    task = Task(task) if isinstance(task, str) else task
    registry = registry or load_plugins()
    chosen = chosen_planner(registry, planner)
    if chosen.needs_follower:
        chosen = chosen.bind(await load_follower(registry, follower), on_the_loop)
    chosen = equipped(chosen, registry, "off", Services())
    return await History(max_cost, on_event).ask(chosen, task)


async def arun_program(
    program: Program | str,
    task: str | Task = "(none)",
    *,
    follower: Any = None,
    sampler: str | Sampler = "smc",
    n: int | None = None,
    seed: int = 0,
    measure: BaseMeasure | Mapping[str, Any] | None = None,
    timeout: float | None = None,
    max_tokens: int | None = None,
    sandbox: str | None = None,
    services: Mapping[str, Any] | None = None,
    verify: Verifier | None = None,
    on_event: Listener | None = None,
    trace: bool | Recorder = False,
    registry: Registry | None = None,
) -> Result:
    """Run a given program on ``task``; arguments and errors as for :func:`aself_steer`."""
    task = limited(task, n, timeout, max_tokens, verify)
    if isinstance(program, str):
        program = Program(program)
    registry = registry or load_plugins()
    recorder = recorder_for(trace, task, seed)
    if recorder is not None:
        recorder.about(program=program.source)
    setting = setting_of(registry, sampler, seed, sandbox, on_event, services, recorder, measure)
    prestart(setting)
    await choose_sandbox(program, setting)
    loaded = setting.load(await load_follower(registry, follower))
    begun = time.monotonic()
    result = verified(await launch(program, task, loaded), task)
    history = History()
    history.tried(Plan(program, cost=0.0), time.monotonic() - begun, result=result)
    return _recorded(history.settled(result), recorder, loaded)


def _learn(planner: Planner, task: Task, program: Program, passed: bool | None) -> None:
    """Have a planner learn what is known; where it cannot, the answer must not be lost."""
    if passed is None:
        return
    try:
        planner.learn(task, program, passed)
    except DiscipleError as error:
        warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def _recorded(result: Result, recorder: Recorder | None, setting: LoadedSetting) -> Result:
    if recorder is None:
        return result
    measure = setting.follower.measure.to_dict()
    recorder.about(follower=setting.follower.name, measure=measure)
    return replace(result, record=recorder.close(result))


def _wait(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:  # inside an event loop (a notebook): in another thread
        return pool.submit(asyncio.run, work).result()
