"""The command line as a user meets it: processes, exit codes, what goes where."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from disciple_ext import Result, cli
from disciple_ext.cli import EXIT_CODES
from disciple_ext.demo import DEMO
from disciple_ext.evaluation.suites.collie import verify
from disciple_ext.sandbox.host.host import Witness

TASK = "Please generate a sentence with exactly 8 words."
LEVEL = "process" if hasattr(os, "fork") else "none"
"""What every system has that these tests run on; the levels have tests of their own."""
PROGRAM = """
class InferenceModel(BaseModel):
    @classmethod
    def prior_prompt(cls):
        return "Write a sentence."

    async def step(self):
        await self.next_word()
        if len(self.words) == 5:
            await self.end_sentence()
            await self.end()

    def check(self, text):
        return len(units.words(text)) == 5
"""


@dataclass(frozen=True)
class Done:
    """What a command left behind."""

    returncode: int
    stdout: str
    stderr: str


Disciple = Callable[..., Done]


@pytest.fixture
def disciple(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Iterator[Disciple]:
    """Run the command in this process, without a terminal and without a key."""
    for name in CLEARED:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TQDM_DISABLE", "1")
    monkeypatch.setattr("warnings.showwarning", warnings.showwarning)
    handler = signal.getsignal(signal.SIGINT)

    def run(*args: str, stdin: str = "") -> Done:
        monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(stdin.encode())))
        code = cli.run(list(args))
        shown = capsys.readouterr()
        return Done(code, shown.out, shown.err)

    yield run
    signal.signal(signal.SIGINT, handler)


def process(*args: str, env: dict[str, str] | None = None) -> Done:
    """Run the command in a process of its own."""
    command = [sys.executable, "-m", "disciple_ext", *args]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=120, env=environment(env)
    )
    return Done(done.returncode, done.stdout, done.stderr)


CLEARED = ("OPENAI_API_KEY", "OPENAI_BASE_URL", "DISCIPLE_COLLIE", "DISCIPLE_DEBUG")


def environment(more: dict[str, str] | None = None) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if name not in CLEARED}
    return {**kept, **(more or {})}


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return str(path)


def write(tmp_path: Path, step: str) -> str:
    """A program whose step is ``step``."""
    body = "\n".join("        " + line for line in step.split("\n"))
    path = tmp_path / "other.py"
    path.write_text(f"class InferenceModel(BaseModel):\n    async def step(self):\n{body}\n")
    return str(path)


# Answers --------------------------------------------------------------------------------------


def test_run_prints_the_text_and_nothing_else_on_stdout() -> None:
    done = process("run", TASK, "-n", "4", "--seed", "3")
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.strip().split()) == 8
    assert done.stdout.endswith("\n") and done.stdout.count("\n") == 1
    assert "check: passed" in done.stderr
    assert "\x1b" not in done.stdout + done.stderr


def test_run_as_json_is_a_result_of_schema_1(disciple: Disciple) -> None:
    done = disciple("run", TASK, "-n", "4", "--json")
    data = json.loads(done.stdout)
    assert data["schema"] == 1
    assert done.stdout.count("\n") == 1
    result = Result.from_dict(data)
    assert result.check is True
    assert len(result.particles) == 4
    assert result.program["planner"] == "expert"
    assert result.to_dict() == data


def test_the_base_measure_is_in_the_result(disciple: Disciple) -> None:
    asked = ("run", TASK, "-n", "2", "--follower", "embedded,temperature=0.5,top_k=90")
    done = disciple(*asked, "--temperature", "0.8", "--alpha", "1.2", "--proposal-top-p", "0.9")
    # A flag goes before the spec, and each option counts by itself.
    assert "base measure: temperature=0.8, top_k=90, alpha=1.2, proposal: " in done.stderr
    data = json.loads(disciple(*asked, "--json").stdout)
    prior = {"temperature": 0.5, "top_p": 1.0, "top_k": 90, "min_p": 0.0}
    assert data["measure"] == {"prior": prior, "proposal": None, "power": 1.0}


def test_one_seed_gives_one_answer(disciple: Disciple) -> None:
    first, second = (disciple("run", TASK, "-n", "2", "--seed", "9", "-q") for _ in range(2))
    assert first.stdout == second.stdout != ""
    assert first.stderr == ""


def test_a_task_and_a_program_may_come_through_pipes(disciple: Disciple) -> None:
    planned = disciple("plan", "-", stdin=TASK + "\n")
    assert planned.returncode == 0
    assert "class InferenceModel(BaseModel)" in planned.stdout
    checked = disciple("check", "-", stdin=planned.stdout)
    assert checked.returncode == 0, checked.stdout
    run = disciple("exec", "-", "--sandbox", LEVEL, "-n", "2", stdin=planned.stdout)
    assert run.returncode == 0, run.stderr
    assert len(run.stdout.split()) == 8


def test_a_reader_that_goes_away_is_no_error() -> None:
    command = f"{sys.executable} -m disciple_ext plan '{TASK}' | head -c 1"
    shell = ["bash", "-o", "pipefail", "-c", command]
    done = subprocess.run(shell, capture_output=True, text=True, timeout=300, env=environment())
    assert "Traceback" not in done.stderr
    assert "Error" not in done.stderr


# Exit codes -----------------------------------------------------------------------------------


def test_a_rejected_answer_exits_with_1(disciple: Disciple) -> None:
    done = disciple("run", TASK, "-n", "2", "--retries", "1", "--verify", "false")
    assert done.returncode == 1
    assert "verifier: failed" in done.stderr
    passed = disciple("run", TASK, "-n", "2", "--verify", "grep -q .", "--json")
    assert passed.returncode == 0, passed.stderr
    assert json.loads(passed.stdout)["verified"] is True


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (["run", ""], "the task is empty"),
        (["run", "   \n"], "the task is empty"),
        (["run", TASK, "-n", "0"], "at least 1, not 0"),
        (["run", TASK, "--top-p", "0"], "top_p must be a number above 0"),
        (["run", TASK, "--follower", "embedded,top_k=many"], "top_k must be a whole number"),
        (["run", TASK, "--timeout", "-1"], "above 0 seconds, not -1"),
        (["run", TASK, "--timeout", "nan"], "above 0 seconds"),
        (["run", TASK, "--retries", "0"], "at least 1"),
        (["run", TASK, "--max-tokens", "0"], "at least 1"),
        (["run", TASK, "--planner", "nobody"], "unknown planner 'nobody'"),
        (["run", TASK, "--planner", "openai:"], "openai:gpt-4o"),
        (["run", TASK, "--sampler", "nothing"], "unknown sampler 'nothing'"),
        (["run", TASK, "--follower", "nobody"], "unknown follower 'nobody'"),
        (["run", TASK, "--sandbox", "iron"], "unknown sandbox level 'iron'"),
        (["run", TASK, "--verify", "'open"], "--verify"),
        (["run", TASK, "--verify", ""], "--verify is empty"),
        (["run", TASK, "--seed", "x"], "valid integer"),
        (["run"], "Missing argument"),
        (["frobnicate"], "No such command"),
        (["exec", "no-such-file.py"], "cannot read the program no-such-file.py"),
        (["exec", ".."], "cannot read the program"),
        (["eval", "collie", "--out", "unused"], "DISCIPLE_COLLIE"),
        (["eval", "puzzles", "--out", "unused", "--shard", "x"], "--shard takes a part"),
        (["eval", "puzzles", "--out", "unused", "--method", "cot"], "no chat model"),
        (["eval", "merge", "unused", "nowhere"], "no run.json in nowhere"),
    ],
)
def test_wrong_usage_exits_with_2(
    disciple: Disciple,
    args: list[str],
    says: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    done = disciple(*args)
    assert done.returncode == 2, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert list(tmp_path.iterdir()) == []


def test_a_task_that_the_expert_cannot_read_says_what_it_can(disciple: Disciple) -> None:
    done = disciple("run", "Explain the moon to my cat.")
    assert done.returncode == 2
    assert "--planner" in done.stderr or "planner" in done.stderr


@pytest.mark.parametrize(
    ("step", "says"),
    [
        ("self.nonsense()", "nonsense"),
        ("self.condition(False)", "no particle ended"),
        ("raise SystemExit(7)", "SystemExit"),
    ],
)
def test_a_program_at_fault_exits_with_3(
    disciple: Disciple, tmp_path: Path, step: str, says: str
) -> None:
    done = disciple("exec", write(tmp_path, step), "--sandbox", LEVEL, "-n", "2")
    assert done.returncode == 3, done.stderr
    assert says in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""


def test_a_program_that_does_not_parse_exits_with_3(disciple: Disciple, tmp_path: Path) -> None:
    path = tmp_path / "broken.py"
    path.write_text("class InferenceModel(BaseModel):\n  async def\n")
    done = disciple("exec", str(path), "--sandbox", LEVEL)
    assert done.returncode == 3
    assert "line 2" in done.stderr


async def nothing_holds(*_: object) -> Witness:
    """What an old kernel would have witnessed."""
    return Witness("process", {"landlock": "no Landlock", "seccomp": "no seccomp"}, 0, 1000, ())


def test_what_is_not_there_exits_with_4(
    disciple: Disciple, tmp_path: Path, program: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = disciple("run", TASK, "--follower", f"hf:{tmp_path / 'gone'}")
    assert gone.returncode == 4
    # One line: no program failed, and no attempt was charged.
    assert "gone" in gone.stderr and gone.stderr.startswith("error: ")
    assert gone.stderr.count("\n") == 1
    keyless = disciple("run", TASK, "--planner", "openai:gpt-4o", "--sandbox", "none")
    assert keyless.returncode == 4
    assert "OPENAI_API_KEY" in keyless.stderr
    monkeypatch.setattr("disciple_ext.sandbox.host.host.witness", nothing_holds)
    walled = disciple("exec", program)
    assert walled.returncode == 4
    assert "landlock cannot be put on" in walled.stderr
    assert "choose a weaker level yourself: process, none" in walled.stderr
    for done in (gone, keyless, walled):
        assert "Traceback" not in done.stderr
        assert done.stdout == ""


def test_out_of_time_exits_with_124(disciple: Disciple, tmp_path: Path) -> None:
    path = write(tmp_path, "while True: pass")
    done = disciple("exec", path, "--sandbox", LEVEL, "--timeout", "1", "-n", "2")
    assert done.returncode == 124, done.stderr
    assert "time limit of 1 s" in done.stderr
    assert "Traceback" not in done.stderr


STUBBORN = """
import sys
print("ready", file=sys.stderr, flush=True)
while True:
    try:
        while True:
            pass
    except BaseException:
        pass
"""


@pytest.mark.parametrize(
    "step",
    [
        'import sys\nprint("ready", file=sys.stderr, flush=True)\nwhile True: pass',
        'import sys\nprint("ready", file=sys.stderr, flush=True)\n'
        "while True: await self.next_token()",
        STUBBORN.strip(),
    ],
    ids=["spins", "writes", "stubborn"],
)
def test_an_interrupt_ends_it_within_a_second(tmp_path: Path, step: str) -> None:
    path = write(tmp_path, step)
    command = [sys.executable, "-m", "disciple_ext", "exec", path, "--sandbox", "none"]
    with subprocess.Popen(
        [*command, "--timeout", "100", "--max-tokens", "100000"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stderr is not None and process.stdout is not None
        seen = b""
        while b"ready" not in seen:
            byte = process.stderr.read(1)
            assert byte, seen
            seen += byte
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        code = process.wait(20)
        took = time.monotonic() - sent
        said = process.stderr.read().decode()
        assert code == 130, said
        busy = os.getloadavg()[0] > (os.cpu_count() or 1)
        assert took < (15.0 if busy else 1.0), took
        assert "interrupted" in said
        assert "Traceback" not in said
        assert process.stdout.read() == b""


# The rest -------------------------------------------------------------------------------------


def test_check_shows_findings_with_lines(disciple: Disciple, tmp_path: Path, program: str) -> None:
    assert disciple("check", program).returncode == 0
    bad = write(tmp_path, "self.next_word()")
    done = disciple("check", bad)
    assert done.returncode == 1
    assert f"{bad}:3: error: self.next_word()" in done.stdout
    (finding,) = json.loads(disciple("check", bad, "--json").stdout)
    assert finding["line"] == 3 and finding["fatal"]


def test_doctor_lists_what_there_is(disciple: Disciple, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    done = disciple("doctor", "--json")
    conditions = {condition["name"]: condition for condition in json.loads(done.stdout)}
    assert done.returncode == 0, done.stdout
    assert conditions["embedded follower"]["ok"]
    assert conditions["openai planner"]["ok"]
    assert not conditions["collie data"]["ok"] and conditions["collie data"]["fix"]
    assert "sk-secret" not in done.stdout + done.stderr
    shown = disciple("doctor").stdout
    assert "torch" in shown and "sandbox" in shown


def test_samplers_and_plugins_are_listed(
    disciple: Disciple, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = json.loads(disciple("samplers", "--json").stdout)
    assert {row["name"]: row["kind"] for row in rows} == {
        "is": "weighted",
        "rs": "weighted",
        "smc": "weighted",
        "smc-steer": "weighted",
    }
    options = {row["name"]: row["options"] for row in rows}
    assert options["is"] == {} and options["rs"] == {"stop_after": None, "batch": 8}
    assert "ess_threshold=0.5,scheme=stratified" in disciple("samplers").stdout
    monkeypatch.setenv("DISCIPLE_PLUGINS", "")
    (plugin,) = json.loads(disciple("plugins", "--json").stdout)
    assert (plugin["name"], plugin["origin"]) == ("builtin", "disciple-ext")
    assert {"name": "register_samplers", "side": "worker"} in plugin["hooks"]
    assert {"name": "register_planners", "side": "host"} in plugin["hooks"]
    assert "register_masks (worker), register_planners (host)" in disciple("plugins").stdout


def test_options_of_a_sampler_are_refused_in_one_line(disciple: Disciple) -> None:
    done = disciple("run", TASK, "--sampler", "smc:ess=0.7")
    assert done.returncode == 2 and not done.stdout
    assert done.stderr.count("\n") == 1
    assert "no option 'ess'" in done.stderr and "smc:ess_threshold=0.5,scheme=" in done.stderr


def test_a_new_plugin_says_what_to_do_next(disciple: Disciple, tmp_path: Path) -> None:
    out = tmp_path / "a folder"
    done = disciple("new-plugin", "sampler", "mine", "--out", str(out))
    assert done.returncode == 0 and done.stdout == f"{out}\n"
    steps = [f"cd '{out}'", "pip install -e '.[test]'", "pytest", "disciple samplers"]
    assert [line.strip() for line in done.stderr.splitlines()[1:]] == steps
    again = disciple("new-plugin", "sampler", "mine", "--out", str(out), "--json")
    assert again.returncode == 2 and not again.stdout
    assert again.stderr.startswith("error: ") and again.stderr.count("\n") == 1
    other = disciple("new-plugin", "sampler", "mine", "--out", f"{out}2", "--json")
    made = json.loads(other.stdout)
    assert made["class"] == "MineSampler" and "disciple_mine/sampler.py" in made["files"]
    assert made["next"][0] == f"cd '{out}2'"


def test_version_and_help(disciple: Disciple) -> None:
    assert re.fullmatch(r"disciple \d+\.\d+\.\d+\n", disciple("--version").stdout)
    shown = disciple("--help").stdout
    assert all(str(code) in shown for code in EXIT_CODES)
    assert "\x1b" not in shown


@pytest.mark.parametrize(
    "command",
    [
        "run",
        "plan",
        "exec",
        "check",
        "demo",
        "doctor",
        "samplers",
        "plugins",
        "new-plugin sampler",
        "cache",
        "cache clear",
        "library list",
        "library export",
        "eval collie",
        "eval puzzles",
        "eval merge",
        "judge",
        "report",
    ],
)
def test_every_command_has_help_with_an_example(disciple: Disciple, command: str) -> None:
    done = disciple(*command.split(), "--help")
    assert done.returncode == 0
    assert "Examples:" in done.stdout
    assert f"disciple {command}" in done.stdout


def test_an_unexpected_error_is_one_line_and_debug_shows_more(
    disciple: Disciple, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken() -> None:
        raise RuntimeError("boom")

    monkeypatch.setattr("disciple_ext.cli.doctor.diagnose", broken)
    done = disciple("doctor")
    assert done.returncode == 1
    assert done.stderr.count("\n") == 1 and "RuntimeError: boom" in done.stderr
    monkeypatch.setenv("DISCIPLE_DEBUG", "")
    assert "Traceback" in disciple("--debug", "doctor").stderr


@pytest.mark.slow
def test_the_demo_passes_the_ground_truth(disciple: Disciple) -> None:
    done = disciple("demo", "--json")  # with the embedded follower, as all tests
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert len({row["type"] for row in rows}) == 9
    assert all(row["passed"] for row in rows)
    assert done.stderr.splitlines()[-1].endswith("seed 0, follower embedded")


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smollm2_is_the_default_where_it_is(smollm2: Path, tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    done = process("run", TASK, "-n", "4", "--trace", str(trace))
    assert done.returncode == 0, done.stderr
    assert len(done.stdout.split()) == 8 and "check: passed" in done.stderr
    assert "models add" not in done.stderr
    assert json.loads(trace.read_text())["follower"] == "smollm2"


def test_the_readme_shows_what_the_demo_prints() -> None:
    """Its tasks, and lines of the demo's form; the texts are those of one machine and one day."""
    readme = Path(__file__).parents[1] / "README.md"
    (shown,) = re.findall(
        r"<!-- demo.*?```text\n(.*?)```\n<!-- /demo -->", readme.read_text(), re.S
    )
    *blocks, dots, last = shown.strip().split("\n\n")
    assert dots == "..." and len(blocks) >= 2
    assert re.fullmatch(r"9 of 9 pass the ground truth; \d+ s, seed 0, follower smollm2", last)
    for block in blocks:
        match = re.fullmatch(
            r"(.*)\ntext    (.*)\n"
            r"weight  [01]\.\d{3} of (\d+) particles, log -?\d+\.\d\d\ntruth   pass",
            block,
            re.DOTALL,
        )
        assert match, block
        (task,) = (task for task in DEMO if block.startswith(task.type))
        assert " ".join(match[1].split()) == f"{task.type} {' '.join(task.prompt.split())}"
        assert verify(task.type, task.targets, " ".join(match[2].split()))
        assert int(match[3]) == task.n
