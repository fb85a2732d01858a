"""Runs in workers: the same results, errors as data, quotas, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import os
import shutil
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import disciple_ext
from disciple_ext import Limits, Result, Task, run_program
from disciple_ext.errors import (
    DiscipleError,
    FollowerError,
    LimitExceeded,
    ProgramCrashed,
    ProgramRejected,
    SandboxError,
    UsageError,
)
from disciple_ext.loop.steer import arun_program
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.samplers.smc import SMCSampler
from disciple_ext.sandbox.host import host
from disciple_ext.testing import ToyFollower

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")

SANDBOXED = ("landlock+seccomp", "seccomp", "process")
MOSTLY_SLOW = (
    "landlock+seccomp",
    *(pytest.param(s, marks=pytest.mark.slow) for s in SANDBOXED[1:]),
)


def toy() -> ToyFollower:
    return ToyFollower.random(2, ["a", "b", "c", " a", " b", "."])


FOLLOWER = toy()


def step(body: str, *, rest: str = "") -> str:
    """A program whose ``step`` is this body."""
    lines = textwrap.indent(textwrap.dedent(body).strip(), " " * 8)
    return f"class InferenceModel(BaseModel):\n    async def step(self):\n{lines}\n{rest}"


WRITES = step(
    """
    async with MaxCharsMask(self, max_chars=5):
        await self.next_token()
    if await self.wants("."):
        await self.force(".")
        await self.end()
    if self.random.random() < 0.2:
        await self.hint("shorter")
    self.condition(len(self) < 40)
    """,
    rest="""
    @classmethod
    def prior_prompt(cls):
        return "prior"

    @classmethod
    def proposal_prompt(cls):
        return "proposal"

    def check(self, text):
        return text.count("a") > 1
""",
)


SPELLS = step(
    """
    self.char_tolerance = 0.4
    await self.preface("c ")
    async with AvoidCharsMask(self, "b"):
        await self.next_char("abc ")
    await self.spell(["ab", "ac"], look=8)
    if not await self.wants_to_end():
        await self.next_token()
    await self.end()
    """,
    rest="""
    @classmethod
    def prior_prompt(cls):
        return "prior"

    @classmethod
    def proposal_prompt(cls):
        return "proposal"
""",
)


def run(source: str, **options: Any) -> Result:
    return run_program(source, "a toy task", **{"follower": FOLLOWER, "n": 4, **options})


def claims(result: Result) -> dict[str, Any]:
    """Everything of a result that may not depend on where it was run."""
    data = result.to_dict()
    return {
        key: data[key] for key in data if key not in ("sandbox", "timings", "usage", "attempts")
    }


# The same results -----------------------------------------------------------------------------


@pytest.mark.parametrize("level", SANDBOXED)
@pytest.mark.parametrize("sampler", ["smc", "is", "rs"])
def test_a_worker_gives_what_this_process_gives(level: str, sampler: str) -> None:
    options = {"sampler": sampler, "n": 16, "seed": 5}
    here, there = run(WRITES, sandbox="none", **options), run(WRITES, sandbox=level, **options)
    assert claims(here) == claims(there)
    assert here.usage.follower_tokens == there.usage.follower_tokens
    assert there.sandbox["witnessed"] == level


def test_characters_are_the_same_in_a_worker() -> None:
    options = {"sampler": "smc", "n": 8, "seed": 3}
    here, there = run(SPELLS, sandbox="none", **options), run(SPELLS, **options)
    assert claims(here) == claims(there)
    assert here.usage.follower_tokens == there.usage.follower_tokens > 0
    assert there.lost_mass <= 0.4
    assert there.lost_mass == max(p.lost_mass for p in there.particles)
    assert Result.from_dict(json.loads(there.to_json())) == there


def test_forwards_are_batched_as_in_this_process() -> None:
    here = run(WRITES, sandbox="none", n=32, follower=toy())
    there = run(WRITES, n=32, follower=toy())
    assert there.usage.forwards == here.usage.forwards


def test_every_request_of_the_protocol_crosses() -> None:
    async def shout(payload: Any) -> Any:
        return {"said": payload["text"].upper()}

    follower = toy()
    source = step(
        """
        vector = await self.context.logprobs()
        total = float(sum(math.e ** float(x) for x in vector))
        vector[0] = 0.0  # a copy of its own
        vectors = await asyncio.gather(*(self.context.logprobs() for _ in range(40)))
        assert all((v == vectors[0]).all() and v[0] != 0.0 for v in vectors), "vectors"
        voice = await self.new_context("another prompt")
        await self.observe(voice.mask_dist({0, 1}), True)
        said = await self.call(Shouts())
        await self.intervene(self.context.next_token(), "a")
        await self.end()
        self.note = f"{total:.4f} {said}"
        """,
        rest="""
    def check(self, text):
        return self.note == "1.0000 HELLO"


class Shouts(SubModel):
    async def forward(self):
        ask = self.parent.context.follower.ask
        return (await ask(Call("shout", {"text": "hello"})))["said"]


import asyncio
from disciple_ext.protocol.requests import Call
""",
    )
    for level in ("none", None):
        result = run(source, follower=follower, sandbox=level, services={"shout": shout})
        assert result.check is True
        assert {p.text for p in result.particles} == {"a"}


def test_a_service_that_fails_or_is_unknown_fails_its_caller() -> None:
    source = step(
        """
        from disciple_ext.protocol.requests import Call
        try:
            await self.context.follower.ask(Call(self.asked, {1, 2} if self.asked == "x" else None))
        except Exception as error:
            await self.force("a")
            await self.end()
            self.error = f"{type(error).__name__}: {error}"
        """,
        rest="    asked = NAME\n    def check(self, text):\n        return SAID in self.error\n",
    )
    for name, said in (("nobody", "no service 'nobody'"), ("x", "not JSON")):
        program = source.replace("NAME", repr(name)).replace("SAID", repr(said))
        assert run(program).check is True


def test_samplers_cross_with_their_settings() -> None:
    for sampler in (SMCSampler(1.0, "multinomial"), SMCSampler(0.0), ImportanceSampler()):
        options: dict[str, Any] = {"sampler": sampler, "n": 12, "seed": 1}
        assert claims(run(WRITES, sandbox="none", **options)) == claims(run(WRITES, **options))


def test_a_sampler_that_cannot_cross_says_so() -> None:
    class Local(ImportanceSampler):
        pass

    with pytest.raises(UsageError, match="put it into a module"):
        run(WRITES, sampler=Local())
    sampler = SMCSampler()
    sampler.rng = np.random.default_rng()  # type: ignore[attr-defined]
    with pytest.raises(UsageError, match="'rng' is no plain data"):
        run(WRITES, sampler=sampler)
    assert run(WRITES, sampler=Local(), sandbox="none").text is not None


PLUGIN = """
import sys
from disciple_ext import hookimpl
from disciple_ext.samplers.importance import ImportanceSampler

class Lucky(ImportanceSampler):
    name = "lucky"

@hookimpl
def register_samplers():
    return {"lucky": Lucky}

@hookimpl
def register_patterns():
    return {"thrice": (lambda text: text * 3, "thrice(text): the text, three times.")}

@hookimpl
def register_services():
    import torch  # host side: a worker must never come here
    return {"size": len} if torch.tensor([1]).numel() else {}
"""


def test_plugins_are_imported_in_the_worker(tmp_path: Path) -> None:
    (tmp_path / "lucky_plugin.py").write_text(PLUGIN)
    info = tmp_path / "lucky_plugin-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lucky-plugin\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[disciple_ext]\nlucky = lucky_plugin\n")
    program = step("await self.force(thrice('a')); await self.end()")
    script = f"""
from disciple_ext import run_program
from disciple_ext.testing import ToyFollower
follower = ToyFollower.random(2, ["a", "b"])
result = run_program({program!r}, follower=follower, sampler="lucky", n=3)
print(result.text, result.sandbox["witnessed"])
"""
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, env=environment
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split()[0] == "aaa"
    assert "Warning" not in done.stderr


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root's workers change their user")
def test_workers_need_no_file_of_the_package(tmp_path: Path) -> None:
    """Workers of root are another user, who may not be able to read where the package lies."""
    home = tmp_path / "closed"
    shutil.copytree(Path(disciple_ext.__file__).parent, home / "disciple_ext")
    home.chmod(0o700)
    script = f"""
import sys
sys.path.insert(0, {str(home)!r})
import disciple_ext
from disciple_ext import run_program
from disciple_ext.testing import ToyFollower
result = run_program({WRITES!r}, follower=ToyFollower.random(2, ["a", "b", "."]), n=2)
print(disciple_ext.__file__, result.sandbox["witnessed"])
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd="/")
    assert done.returncode == 0, done.stderr
    assert str(home) in done.stdout


# Errors as data -------------------------------------------------------------------------------


def test_an_error_says_where_it_happened() -> None:
    source = step(
        """
        await self.force("ab")
        if self.random is not None:
            self.helper()
        """,
        rest="    def helper(self):\n        return {}['missing']\n",
    )
    with pytest.raises(ProgramCrashed) as caught:
        run(source)
    error = caught.value
    assert (error.line, error.particle, error.step, error.text) == (7, 0, 1, "ab")
    assert "KeyError: 'missing'" in str(error)
    assert "line 5, in step" in error.traceback and "line 7, in helper" in error.traceback
    assert "/" not in error.traceback, "only the program's own lines"


@pytest.mark.parametrize(
    ("source", "kind", "said"),
    [
        ("class (", ProgramRejected, "line 1"),
        ("x = 1", ProgramRejected, "InferenceModel"),
        ("1 / 0", ProgramCrashed, "ZeroDivisionError"),
        (step("open('/etc/passwd')"), ProgramCrashed, "PermissionError"),
        (step("import requests"), ProgramCrashed, "no module 'requests' here"),
        (step("import statistics, random, datetime; raise KeyError"), ProgramCrashed, "KeyError"),
        (step("raise SystemExit(3)"), ProgramCrashed, "SystemExit"),
        (step("raise KeyboardInterrupt"), ProgramCrashed, "KeyboardInterrupt"),
        (step("raise type('Odd', (BaseException,), {})()"), ProgramCrashed, "Odd"),
        (step("self.weight = 10 ** 400"), ProgramCrashed, "OverflowError"),
        (step("self.weight = 'x'"), ProgramCrashed, "TypeError"),
        (step("await self.force('xyz')"), ProgramCrashed, "ValueError"),
        (step("raise type('Odd', (Exception,), {'__str__': lambda s: 1/0})()"), ProgramCrashed,
         "cannot be had"),
        (step("raise ValueError('x' * 10**7)"), ProgramCrashed, "x{2000}... .10000000 characters"),
        ("(" * 5000, ProgramRejected, "parse"),
        (step("import os; os._exit(0)"), ProgramCrashed, "ended its own process"),
        (step("import ctypes; ctypes.string_at(0)"), ProgramCrashed, "SIGSEGV"),
        (step("self.x = [bytearray(2**20) for _ in range(10**6)]"), ProgramCrashed, "MemoryError"),
    ],
)  # fmt: skip
def test_each_failure_is_a_typed_error(source: str, kind: type[DiscipleError], said: str) -> None:
    with pytest.raises(kind, match=said):
        run(source)
    assert run(WRITES).text is not None, "the next run is not affected"


def test_programs_of_ones_own_may_fail_in_this_process_too() -> None:
    for fault in ("raise type('Odd', (BaseException,), {})()", "self.weight = 10 ** 400"):
        with pytest.raises(ProgramCrashed):
            run(step(fault), sandbox="none")


def test_a_context_beyond_the_models_length_fails_alone() -> None:
    class Short(ToyFollower):
        max_context = 8  # type: ignore[assignment]

    short = Short(lambda prompt, text: {"a": 1.0, "": 1.0}, ["a"])
    source = step(
        """
        try:
            await self.context.follower.ask(Score(self.context.prefix, (0,) * 40))
        except Exception as error:
            self.error = str(error)
        await self.force("a")
        await self.end()
        """,
        rest="""
    def check(self, text):
        return self.error == "the context has 41 tokens; the model takes 8"

from disciple_ext.protocol.requests import Score
""",
    )
    assert run(source, follower=short).check is True


def test_what_the_follower_cannot_do_is_the_followers_error() -> None:
    class Broken:  # all that a follower must have, and no base class
        name, vocabulary, prompt = "broken", toy().vocabulary, staticmethod(toy().prompt)

        async def ask(self, request: Any) -> Any:
            raise RuntimeError("out of memory")

    broken = Broken()
    with pytest.raises(FollowerError, match="out of memory"):
        run(step("await self.next_token()"), follower=broken)


def test_prints_and_events_stream_out() -> None:
    events: list[Any] = []
    source = step("print('one\\x1b[2J'); await self.next_token(); await self.end()")
    result = run(source, on_event=events.append, n=2)
    kinds = [type(e).__name__ for e in events]
    assert kinds.count("ProgramPrinted") == 2
    assert kinds[0] == "RunStarted" and kinds[-1] == "RunFinished"
    steps = [e for e in events if type(e).__name__ == "StepDone"]
    here: list[Any] = []
    run(source.replace("print", "str"), on_event=here.append, n=2, sandbox="none")
    assert steps == [e for e in here if type(e).__name__ == "StepDone"]
    assert steps[-1].tokens == result.usage.follower_tokens


# Limits ---------------------------------------------------------------------------------------

HANGS = {
    "a loop": step("while True: pass"),
    "a loop at module level": "while True: pass",
    "a loop that swallows everything": step(
        "while True:\n    try:\n        await self.next_token()\n    except BaseException: pass"
    ),
    "a regular expression": step("re.match(r'(a+)+$', 'a' * 40 + 'b')"),
    "a loop in C": step("sum(range(10**12))"),
    "a power": step("10 ** 10 ** 9"),
    "a sleep": step("import time; time.sleep(1000)"),
    "an asynchronous sleep": step("import asyncio; await asyncio.sleep(1000)"),
    "a future": step("import asyncio; await asyncio.get_running_loop().create_future()"),
    "a check": step(
        "await self.end()", rest="    def check(self, text):\n        while True: pass"
    ),
}


@pytest.mark.parametrize("name", HANGS)
@pytest.mark.parametrize("level", MOSTLY_SLOW)
def test_no_program_outlives_its_deadline(name: str, level: str) -> None:
    run(WRITES, sandbox=level)  # the zygote is there
    begun = time.monotonic()
    with pytest.raises(LimitExceeded) as caught:
        run(HANGS[name], timeout=0.5, sandbox=level)
    assert caught.value.kind == "timeout"
    took = time.monotonic() - begun
    busy = os.getloadavg()[0] > (os.cpu_count() or 1)
    assert took < 0.5 + (3.0 if busy else 0.5), took
    assert run(WRITES, sandbox=level).text is not None


def limited(source: str, **limits: Any) -> Result:
    task = Task("a toy task", n=4, limits=Limits(**{"timeout": 20.0, **limits}))
    return run_program(source, task, follower=FOLLOWER)


def test_quotas_hold_and_are_named() -> None:
    cases: list[tuple[str, str, dict[str, Any], dict[str, Any]]] = [
        (step("while True: pass"), "cpu", {"cpu": 1}, {}),
        (step("for _ in range(50): await self.next_token()\nawait self.end()"), "tokens",
         {"lm_tokens": 100}, {"lm_tokens": 300}),
        (step("await self.force('a'); await self.end(); self.reason = 'x' * 10**6"), "output",
         {"output": 1}, {"output": 8}),
    ]  # fmt: skip
    for source, kind, tight, loose in cases:
        with pytest.raises(LimitExceeded) as caught:
            limited(source, **tight)
        assert caught.value.kind == kind
        assert caught.value.exit_code == 124
        if loose:
            assert limited(source, **loose).text is not None
    hoards = step("self.x = bytes(200 * 2**20); await self.force('a'); await self.end()")
    with pytest.raises(ProgramCrashed, match="MemoryError"):
        limited(hoards, memory=100)
    assert limited(hoards.replace("200", "20"), memory=300).text == "a"


def test_a_cut_run_keeps_what_had_ended() -> None:
    source = step(
        """
        await self.next_token()
        if self.random.random() < 0.7:
            await self.end()
        else:
            import asyncio
            await asyncio.sleep(1000)
        """
    )
    result = run(source, timeout=0.7, n=16)
    reasons = {p.finish_reason for p in result.particles}
    assert reasons == {"ended", "timeout"}
    assert result.log_evidence is None


# Many runs, and deaths from outside -----------------------------------------------------------


async def test_runs_side_by_side_share_batches_and_nothing_else() -> None:
    async def one(seed: int, follower: ToyFollower) -> Result:
        return await arun_program(WRITES, "a toy task", follower=follower, n=8, seed=seed)

    alone = [await one(seed, toy()) for seed in range(8)]
    shared = toy()
    together = await asyncio.gather(*(one(seed, shared) for seed in range(8)))
    assert [claims(r) for r in together] == [claims(r) for r in alone]
    assert shared.forwards < 0.7 * sum(r.usage.forwards for r in alone)


async def test_one_run_that_fails_leaves_the_others_alone() -> None:
    sources = [WRITES, step("while True: pass"), WRITES, step("1 / 0"), HANGS["a sleep"], WRITES]
    results = await asyncio.gather(
        *(arun_program(s, "t", follower=FOLLOWER, n=4, timeout=3.0) for s in sources),
        return_exceptions=True,
    )
    kinds = [type(r).__name__ for r in results]
    assert kinds == ["Result", "LimitExceeded", "Result", "ProgramCrashed", "LimitExceeded",
                     "Result"]  # fmt: skip


def children(pid: int) -> list[int]:
    """Processes below a process, at any depth."""
    found = []
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in map(int, (task / "children").read_text().split()):
                found += [child, *children(child)]
    return found


def commands(pids: list[int]) -> dict[int, bytes]:
    found = {}
    for pid in pids:
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):  # it has ended meanwhile
            found[pid] = Path(f"/proc/{pid}/cmdline").read_bytes()
    return found


def zygotes() -> list[int]:
    below = commands(children(os.getpid()))
    found = []
    for pid, command in below.items():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            if b"sandbox.worker.zygote" in command and parent(pid) == os.getpid():
                found.append(pid)
    return found


def stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()


def parent(pid: int) -> int:
    return int(stat(pid)[1])


def runs(pid: int) -> bool:
    """Whether a process is there, and more than an entry that nobody has read yet."""
    try:
        return stat(pid)[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


async def settled() -> None:
    """The zygote is there, and neither a probe nor an earlier worker is."""
    await arun_program(WRITES, "t", follower=FOLLOWER, n=4)
    while any(children(zygote) for zygote in zygotes()):
        await asyncio.sleep(0.02)


async def gone(workers: list[int]) -> None:
    """Wait a moment for killed processes to go."""
    for _ in range(100):
        if not any(map(runs, workers)):
            return
        await asyncio.sleep(0.02)
    pytest.fail("a worker still runs")


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
@pytest.mark.parametrize("victim", ["worker", "zygote", "stopped zygote"])
async def test_what_is_killed_from_outside_ends_that_run_alone(victim: str) -> None:
    await settled()
    sleeps = arun_program(HANGS["a sleep"], "t", follower=FOLLOWER, timeout=2.0)
    run_ = asyncio.ensure_future(sleeps)
    while not (workers := [w for z in zygotes() for w in children(z)]):
        await asyncio.sleep(0.02)
    zygote = parent(workers[0])
    await asyncio.sleep(0.5)  # it is about its program, and bound to the zygote's life
    if victim == "stopped zygote":  # the one thing that would let a program live on
        os.kill(zygote, signal.SIGSTOP)
        os.kill(workers[0], signal.SIGSTOP)
    else:
        os.kill(workers[0] if victim == "worker" else zygote, signal.SIGKILL)
    begun = time.monotonic()
    with pytest.raises(SandboxError):
        await run_
    assert time.monotonic() - begun < 10
    again = await arun_program(WRITES, "t", follower=FOLLOWER, n=4)
    assert again.text is not None
    await gone(workers)


async def test_a_cancelled_run_leaves_no_process() -> None:
    await settled()
    work = asyncio.ensure_future(
        arun_program(HANGS["a loop"], "t", follower=FOLLOWER, timeout=30.0)
    )
    while not (workers := [w for z in zygotes() for w in children(z)]):
        await asyncio.sleep(0.02)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    await gone(workers)


def left_behind() -> dict[str, Any]:
    """What runs must not leave: processes, descriptors, shared memory, temporary files."""
    shared = sorted(os.listdir("/dev/shm")) if os.path.isdir("/dev/shm") else []
    return {
        "processes": len(children(os.getpid())),
        "descriptors": len(os.listdir("/proc/self/fd")),
        "shared memory": shared,
        "mappings": Path("/proc/self/maps").read_text().count("memfd:"),
    }


def churn(runs: int) -> None:
    crash, leave = step("1 / 0"), step("import os; os._exit(3)")
    kinds = [WRITES, crash, WRITES, leave]
    for i in range(runs):
        try:
            run(kinds[i % 4], n=2, seed=i)
        except ProgramCrashed:
            pass


def check_leaves_nothing(runs: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    churn(8)
    before = left_behind()
    churn(runs)
    deadline = time.monotonic() + 5
    while left_behind() != before and time.monotonic() < deadline:
        time.sleep(0.05)  # the last worker may still be going
    assert left_behind() == before
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_runs_leave_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_leaves_nothing(60, tmp_path, monkeypatch)


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_a_thousand_runs_leave_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    check_leaves_nothing(1000, tmp_path, monkeypatch)


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
def test_the_host_leaves_no_process_whatever_its_end() -> None:
    script = f"""
import os, signal, sys
from disciple_ext import run_program
from disciple_ext.testing import ToyFollower
run_program({WRITES!r}, follower=ToyFollower.random(2, ["a", "b", "."]), n=2)
from pathlib import Path
below = [c for t in Path("/proc/self/task").iterdir() for c in (t / "children").read_text().split()]
print(*below, flush=True)
if sys.argv[1] == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
"""
    for how in ("end", "kill"):
        done = subprocess.run([sys.executable, "-c", script, how], capture_output=True, text=True)
        pids = [int(pid) for pid in done.stdout.split()]
        assert pids, done.stderr
        for _ in range(100):
            if not any(map(runs, pids)):
                break
            time.sleep(0.02)
        else:
            pytest.fail(f"a process is left after the host's {how}")


async def test_the_witness_has_positive_controls() -> None:
    seen = await host.witness()
    assert seen.layers, "something was tried"
    for layer in seen.layers.values():
        assert isinstance(layer, dict)
        assert all(before for before, _ in layer.values()), "each control succeeds without a lock"
    assert seen.level == "landlock+seccomp", json.dumps(seen.layers)
    assert math.isfinite(seen.landlock_abi)
