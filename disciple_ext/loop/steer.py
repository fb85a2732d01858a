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

from ..errors import DiscipleError, LimitExceeded, ProgramError, UsageError
from ..planner.base import Plan, Planner
from ..planner.feedback import Diary, judge
from ..planner.library.planner import with_library
from ..planner.purse import Purse
from ..protocol.follower import BaseFollower
from ..records.events import AttemptStarted, Event, Observer, PlannerAnswered
from ..records.program import Program
from ..records.result import Result
from ..records.task import Task, Verifier
from ..registry.plugins import Registry, load_plugins
from ..run.execution import Setting
from ..run.launch import choose_level, launch, on_the_loop, prestart
from ..run.rehearsal import inspect_source, rehearse
from ..run.verify import check_verifier, verify
from ..samplers.base import Sampler
from ..sandbox.locks.policy import LEVELS
from ..services.batching import Services
from ..trace.record import Recorder
from .attempts import Attempts
from .ledger import Ledger

__all__ = ["aplan", "arun_program", "aself_steer", "run_program", "self_steer"]


def self_steer(task: str | Task, **options: Any) -> Result:
    """Write what ``task`` asks for. The synchronous form of :func:`aself_steer`."""
    return _wait(aself_steer(task, **options))


def run_program(program: Program | str, task: str | Task = "(none)", **options: Any) -> Result:
    """Run a given program. The synchronous form of :func:`arun_program`."""
    return _wait(arun_program(program, task, **options))


async def aself_steer(
    task: str | Task,
    *,
    planner: str | Planner = "expert",
    follower: Any = "embedded",
    sampler: str | Sampler = "smc",
    n: int | None = None,
    seed: int = 0,
    timeout: float | None = None,
    max_tokens: int | None = None,
    retries: int = 3,
    max_cost: float | Purse | None = None,
    library: str = "off",
    sandbox: str | None = None,
    services: Mapping[str, Any] | None = None,
    verify: Verifier | None = None,
    dry_run: bool = True,
    on_event: Observer | None = None,
    trace: bool | Recorder = False,
    registry: Registry | None = None,
) -> Result:
    """Write what ``task`` asks for: plan, run, and tell the planner what went wrong.

    Args:
        task: what to write, in plain language, or a :class:`Task` with limits of its own.
        planner: ``"expert"`` (offline), ``"openai:MODEL"``, ``"replay:DIR"``, ``"follower"``
            (the follower writes the program, too), or a :class:`Planner`.
        follower: ``"embedded"``, ``"hf:ID_OR_PATH"``, ``"vllm:ID_OR_PATH"``, a Follower, or a
            loaded ``CachedCausalLM`` or ``AsyncLM``.
        sampler: ``"smc"``, ``"is"``, ``"rs"`` or a plugin's name, with options if need be, as in
            ``"smc:ess_threshold=0.7,scheme=systematic"``, or a :class:`Sampler`.
        n: particles; 32 unless the task says otherwise.
        seed: seed of every draw: one seed gives one result on one machine.
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
    task = _task(task, n, timeout, max_tokens, verify)
    if retries < 1:
        raise UsageError(f"retries must be at least 1, not {retries}")
    if task.verify is not None:
        check_verifier(task.verify)
    ledger = Ledger(max_cost)
    registry = registry or load_plugins()
    recorder = _recorder(trace, task, seed)
    setting = _setting(registry, sampler, seed, sandbox, on_event, services, recorder)
    chosen = _planner(registry, planner)
    prestart(setting)
    foreign = getattr(chosen, "trusted", None) is False
    if foreign:
        # Refuse before a program is paid for.
        await choose_level(Program("", planner=chosen.name), setting)
    if hasattr(chosen, "bind"):  # it plans with the follower, so that is needed first
        setting = replace(setting, follower=await _load(registry, follower))
        chosen = chosen.bind(setting.follower, on_the_loop)
    chosen = _equipped(chosen, registry, library, setting.services)
    listens = chosen.name != "expert"
    done = Attempts(ledger, setting.emit)
    planning = rehearsing = 0.0
    attempt = asked = 0
    while asked < retries:
        attempt += 1
        setting.emit(AttemptStarted(attempt, retries + attempt - 1 - asked))
        begun = time.monotonic()
        plan = await ledger.ask(chosen, task, tuple(done.feedback), setting.emit)
        asked += plan.asked
        program, spent = plan.program, time.monotonic() - begun
        planning += spent
        setting.emit(PlannerAnswered(attempt, program.source, spent, plan.cost))
        diary = Diary(program.source)
        suspected: tuple[str, ...] = ()
        warned: tuple[str, ...] = ()
        begun = time.monotonic()
        try:
            stranger = foreign or not plan.asked  # a library's programs are a model's, too
            if stranger:
                suspected = warned = inspect_source(program)
            if setting.follower is None:  # loaded only once there is something to run
                setting = replace(setting, follower=await _load(registry, follower))
            begun = time.monotonic()
            if stranger and dry_run:
                warned += await rehearse(program, task, setting)
                rehearsing += time.monotonic() - begun
                begun = time.monotonic()
            # Another attempt with the same program must not repeat the same draws.
            tried = replace(setting, seed=setting.seed + 1_000_003 * (attempt - 1))
            if listens or stranger:
                tried = replace(tried, observers=(*setting.observers, diary))
            result = await launch(program, task, tried)
            ledger.result = ledger.result or ledger.settled(result)  # the verifier may fail
            result = _verified(result, task)
        except DiscipleError as error:
            mendable = isinstance(error, ProgramError | LimitExceeded)
            # Who does not listen writes the same again, and that takes the same time again.
            hopeless = isinstance(error, LimitExceeded) and not (listens or stranger)
            done.failed(attempt, plan, error, time.monotonic() - begun, diary, warned)
            if isinstance(error, ProgramError):  # a limit may be the machine's fault
                _learn(chosen, task, program, False)
            if not mendable or (done.best is None and (hopeless or asked == retries)):
                ledger.close(error)
                raise
            if hopeless:
                break
            continue
        timings = {"planning": round(planning, 3), **result.timings}
        if rehearsing:
            timings["dry_run"] = round(rehearsing, 3)
        result = replace(result, seed=seed, timings=timings)
        why = ""
        # The expert does not listen: it would write the same again.
        if listens or stranger or result.verified is False:
            why = judge(result, program.source, suspected)
        seconds = time.monotonic() - begun
        done.finished(attempt, plan, result, why, seconds, diary, warned)
        _learn(chosen, task, program, not why and bool(result.check or result.verified))
        if not why:
            break
    return _recorded(done.outcome(), recorder, setting)


async def aplan(
    task: str | Task,
    *,
    planner: str | Planner = "expert",
    follower: Any = "embedded",
    max_cost: float | None = None,
    on_event: Observer | None = None,
    registry: Registry | None = None,
) -> Plan:
    """Ask for the program of a task, and do not run it; arguments as for :func:`aself_steer`."""
    task = Task(task) if isinstance(task, str) else task
    registry = registry or load_plugins()
    chosen = _planner(registry, planner)
    if hasattr(chosen, "bind"):
        chosen = chosen.bind(await _load(registry, follower), on_the_loop)
    chosen = _equipped(chosen, registry, "off", Services())
    return await Ledger(max_cost).ask(chosen, task, (), on_event or (lambda event: None))


async def arun_program(
    program: Program | str,
    task: str | Task = "(none)",
    *,
    follower: Any = "embedded",
    sampler: str | Sampler = "smc",
    n: int | None = None,
    seed: int = 0,
    timeout: float | None = None,
    max_tokens: int | None = None,
    sandbox: str | None = None,
    services: Mapping[str, Any] | None = None,
    verify: Verifier | None = None,
    on_event: Observer | None = None,
    trace: bool | Recorder = False,
    registry: Registry | None = None,
) -> Result:
    """Run a given program on ``task``; arguments and errors as for :func:`aself_steer`."""
    task = _task(task, n, timeout, max_tokens, verify)
    if isinstance(program, str):
        program = Program(program)
    registry = registry or load_plugins()
    recorder = _recorder(trace, task, seed)
    if recorder is not None:
        recorder.about(program=program.source)
    setting = _setting(registry, sampler, seed, sandbox, on_event, services, recorder)
    prestart(setting)
    await choose_level(program, setting)
    setting = replace(setting, follower=await _load(registry, follower))
    begun = time.monotonic()
    result = _verified(await launch(program, task, setting), task)
    ledger = Ledger()
    ledger.tried(Plan(program, cost=0.0), time.monotonic() - begun, result=result)
    return _recorded(ledger.settled(result), recorder, setting)


# Small things -------------------------------------------------------------------------------


def _task(
    task: str | Task,
    n: int | None,
    timeout: float | None,
    max_tokens: int | None,
    verify: Verifier | None,
) -> Task:
    task = Task(task) if isinstance(task, str) else task
    limits = task.limits
    if timeout is not None:
        limits = replace(limits, timeout=timeout)
    if max_tokens is not None:
        limits = replace(limits, max_tokens=max_tokens)
    return replace(
        task,
        n=n if n is not None else task.n,
        limits=limits,
        verify=verify if verify is not None else task.verify,
    )


def _planner(registry: Registry, planner: str | Planner) -> Planner:
    chosen: Planner = registry.make("planners", planner) if isinstance(planner, str) else planner
    return chosen


def _equipped(planner: Planner, registry: Registry, library: str, services: Services) -> Planner:
    """The planner, told of patterns and services, and behind the library where one is wanted."""
    if hasattr(planner, "paragraphs"):
        planner.paragraphs = (*registry.paragraphs(), *services.paragraphs())
    return with_library(planner, library)


def _learn(planner: Planner, task: Task, program: Program, passed: bool) -> None:
    """Tell a planner that learns; where it cannot, the answer must not be lost."""
    if hasattr(planner, "learn"):
        try:
            planner.learn(task, program, passed)
        except DiscipleError as error:
            warnings.warn(str(error), RuntimeWarning, stacklevel=2)


def _setting(
    registry: Registry,
    sampler: str | Sampler,
    seed: int,
    sandbox: str | None,
    on_event: Observer | None,
    services: Mapping[str, Any] | None,
    recorder: Recorder | None,
) -> Setting:
    chosen: Sampler = registry.make("samplers", sampler) if isinstance(sampler, str) else sampler
    if sandbox is not None and sandbox not in LEVELS:
        raise UsageError(f"unknown sandbox level {sandbox!r}; one of {', '.join(LEVELS)}")

    def observe(event: Event) -> None:
        registry.manager.hook.observe(event=event)

    observers: list[Observer] = []
    if registry.manager.hook.observe.get_hookimpls():
        observers.append(observe)
    observers += (o for o in (on_event, recorder) if o is not None)
    plugins = tuple(sorted(p.name for p in registry.plugins if p.name != "builtin"))
    patterns = registry.patterns()
    made = Services({name: _service(registry, given) for name, given in (services or {}).items()})
    return Setting(None, chosen, int(seed), sandbox, tuple(observers), patterns, plugins, made)


def _service(registry: Registry, given: Any) -> Any:
    return registry.make("services", given) if isinstance(given, str) else given


_followers: dict[str, BaseFollower] = {}


async def _load(registry: Registry, spec: Any) -> BaseFollower:
    """The follower of a spec; one that was loaded by name stays loaded for the next call."""
    from ..follower import from_loaded

    if not isinstance(spec, str):
        return from_loaded(spec)
    if spec not in _followers:
        _followers.clear()  # one model at a time: they are large
        _followers[spec] = from_loaded(await asyncio.to_thread(registry.make, "followers", spec))
    return _followers[spec]


def _verified(result: Result, task: Task) -> Result:
    if task.verify is None or result.text is None:
        return result
    return replace(result, verified=verify(task.verify, result.text))


def _recorder(trace: bool | Recorder, task: Task, seed: int) -> Recorder | None:
    recorder = Recorder() if trace is True else trace or None
    if recorder is not None:
        recorder.about(task=task.instruction, seed=seed)
    return recorder


def _recorded(result: Result, recorder: Recorder | None, setting: Setting) -> Result:
    if recorder is None:
        return result
    recorder.about(follower=getattr(setting.follower, "name", ""))
    return replace(result, record=recorder.close(result))


def _wait(work: Coroutine[Any, Any, Result]) -> Result:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(work)
    with ThreadPoolExecutor(1) as pool:  # inside an event loop (a notebook): in another thread
        return pool.submit(asyncio.run, work).result()
