"""Attacks: none succeeds at the two levels that are boundaries, each one does without them."""

from __future__ import annotations

import collections
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from attacks import ALL, GROUPS, Attack, unprivileged
from attacks.harness import BARE, lacking, run_attack, undefended

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the locks are Linux's")

BOUNDARIES = ("landlock+seccomp", "seccomp")

QUICK = {
    attack.name
    for group in GROUPS
    for attack in [a for a in ALL if a.group == group][3::10]
}  # fmt: skip
"""Every tenth attack of each group: what `make test` runs."""

EARLY = ("write-file", "os-fork", "tcp-connect", "mprotect-code", "kill-victim")


def attacks(*, slow: bool = False) -> list[Any]:
    """All attacks as parameters; slow ones, but for the quick tenth where that is not slow too."""
    return [
        pytest.param(a, id=a.name, marks=pytest.mark.slow if slow or a.name not in QUICK else ())
        for a in ALL
    ]


@pytest.fixture(autouse=True)
def secret(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("DISCIPLE_TEST_SECRET", "from-the-host")
    yield


def named(attack_name: str) -> Attack:
    return next(a for a in ALL if a.name == attack_name)


@pytest.mark.parametrize("attack", attacks())
def test_it_fails_with_landlock_and_seccomp(attack: Attack) -> None:
    outcome = run_attack(attack, "landlock+seccomp")
    assert not outcome.succeeded and outcome.untouched, outcome


@pytest.mark.parametrize("attack", attacks(slow=True))
def test_it_fails_with_seccomp(attack: Attack) -> None:
    outcome = run_attack(attack, "seccomp")
    assert not outcome.succeeded and outcome.untouched, outcome


@pytest.mark.slow
@pytest.mark.parametrize(
    "attack",
    [pytest.param(a, id=a.name) for a in ALL if a.name in QUICK or a.group == "imports"],
)
def test_it_fails_in_the_worker_as_shipped(attack: Attack) -> None:
    """The other tests lift what hinders imports; a worker may not be weaker for having it."""
    outcome = run_attack(attack, "landlock+seccomp", sampler="smc")
    assert not outcome.succeeded and outcome.untouched, outcome


@pytest.mark.parametrize("attack", attacks())
def test_its_control_succeeds(attack: Attack) -> None:
    with undefended():
        outcome = run_attack(attack, BARE)
    if not outcome.complete and lacking(attack):
        pytest.skip(f"no control here ({lacking(attack)}): {outcome.refusal[:100]}")
    assert outcome.complete, outcome


@pytest.mark.parametrize("name", EARLY)
def test_the_lock_is_on_before_the_program_is_loaded(name: str) -> None:
    for level in BOUNDARIES:
        assert not run_attack(named(name), level, early=True).succeeded
    with undefended():
        assert run_attack(named(name), BARE, early=True).complete


def test_each_attack_has_a_name_of_its_own() -> None:
    assert len({a.name for a in ALL}) == len(ALL) >= 120
    assert 20 <= len(QUICK) <= 40


@pytest.mark.slow
def test_the_level_process_is_no_boundary(record_property: Any) -> None:
    """What the documentation says of it; the counts go into the report."""
    stopped = [a for a in ALL if not run_attack(a, "process").succeeded]
    through = collections.Counter(a.group for a in ALL if a not in stopped)
    record_property("succeeded at the level process", dict(through))
    print(f"succeeded at the level process: {through.total()} of {len(ALL)}: {dict(through)}")
    assert through["files"] > 0 and through["processes"] > 0
    assert 0 < through.total() < len(ALL)


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_all_of_it_as_an_unprivileged_user(tmp_path: Path) -> None:
    arguments = ["-q", "-m", "", "-k", "fails_with or control or loaded", "-rs", __file__]
    command = [sys.executable, unprivileged.__file__, str(tmp_path), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode == unprivileged.UNAVAILABLE:
        pytest.skip(done.stdout.strip())
    assert done.returncode == 0, f"{done.stdout[-5000:]}\n{done.stderr[-5000:]}"
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed and int(passed[1]) > 2 * len(ALL) + 120, done.stdout[-2000:]
    print(done.stdout.splitlines()[-1])
