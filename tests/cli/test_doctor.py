"""``disciple doctor`` says what was witnessed, and nothing else."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from typing import Any

import pytest

from disciple_ext import cli
from disciple_ext.doctor import Condition, conditions_of
from disciple_ext.errors import SandboxError
from disciple_ext.sandbox.host.host import Witness
from disciple_ext.sandbox.locks import probe

CONTROLS = (*probe.SECCOMP, "bind a TCP port")
STOPS = {"landlock": probe.landlock_controls(7), "seccomp": list(CONTROLS)}
WHOLE = Witness(
    "landlock+seccomp",
    {layer: {c: [True, c not in STOPS[layer]] for c in CONTROLS} for layer in STOPS},
    landlock_abi=7,
    uid=65534,
    namespaces=("user", "net"),
)


def judged(seen: Witness) -> dict[str, Condition]:
    return {condition.name: condition for condition in conditions_of(seen)}


def verdicts(condition: Condition) -> dict[str, str]:
    return {control.name: control.verdict for control in condition.controls}


def test_where_all_holds_each_control_of_each_layer_is_listed() -> None:
    found = judged(WHOLE)
    assert all(condition.ok and not condition.fix for condition in found.values())
    sandbox = found["sandbox"]
    assert sandbox.facts["level"] == "landlock+seccomp"
    assert sandbox.facts["landlock_abi"] == 7 and sandbox.facts["uid"] == 65534
    assert sandbox.facts["namespaces"] == ["user", "net"] and sandbox.facts["machine"]
    assert set(verdicts(found["seccomp"])) == set(verdicts(found["landlock"])) == set(CONTROLS)
    assert set(verdicts(found["seccomp"]).values()) == {"stopped"}
    assert verdicts(found["landlock"])["bind a TCP port"] == "stopped"
    assert verdicts(found["landlock"])["fork"] == "not its job"


def test_an_old_kernel_is_told_what_to_do() -> None:
    layers = {**WHOLE.layers, "landlock": "the kernel has no Landlock"}
    found = judged(replace(WHOLE, level="seccomp", layers=layers, landlock_abi=0))
    assert not found["sandbox"].ok and found["sandbox"].detail.startswith("seccomp;")
    assert "5.13" in found["sandbox"].fix
    assert not found["landlock"].ok and "no Landlock" in found["landlock"].detail
    assert found["seccomp"].ok
    assert not found["sandbox"].needed  # what ships with the package still runs


def test_a_level_that_is_no_boundary_says_so() -> None:
    bare = {"landlock": "no", "seccomp": "no"}
    found = judged(replace(WHOLE, level="process", layers=bare, landlock_abi=0))
    assert "process (no boundary)" in found["sandbox"].detail
    assert "CONFIG_SECCOMP_FILTER" in found["sandbox"].fix and "5.13" in found["sandbox"].fix


@pytest.mark.parametrize(
    ("seen", "verdict"), [([True, True], "NOT STOPPED"), ([False, False], "not witnessed")]
)
def test_a_lock_that_does_nothing_is_no_lock(seen: list[bool], verdict: str) -> None:
    tried: Any = {**WHOLE.layers["seccomp"], "fork": seen}  # type: ignore[dict-item]
    witness = replace(WHOLE, level="process", layers={**WHOLE.layers, "seccomp": tried})
    found = judged(witness)
    assert not found["seccomp"].ok and not found["sandbox"].ok
    assert verdicts(found["seccomp"])["fork"] == verdict
    assert "fork" in found["sandbox"].fix


def test_what_a_layer_does_not_claim_is_not_held_against_it() -> None:
    tried: Any = {**WHOLE.layers["landlock"], "fork": [False, False]}  # type: ignore[dict-item]
    found = judged(replace(WHOLE, layers={**WHOLE.layers, "landlock": tried}))
    assert found["landlock"].ok
    assert verdicts(found["landlock"])["fork"] == "not its job"


def conditions(capsys: pytest.CaptureFixture[str]) -> dict[str, Any]:
    assert cli.run(["doctor", "--json"]) == 0
    return {c["name"]: c for c in json.loads(capsys.readouterr().out)}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_this_machine_is_probed(capsys: pytest.CaptureFixture[str]) -> None:
    found = conditions(capsys)
    assert found["sandbox"]["facts"]["level"] in ("landlock+seccomp", "seccomp", "process")
    for layer in ("landlock", "seccomp"):
        controls = found[layer]["controls"]
        assert bool(controls) != ("error" in found[layer]["facts"])
        for control in controls:
            assert set(control) == {"name", "before", "after", "verdict"}
    cli.run(["doctor"])
    shown = capsys.readouterr().out
    assert found["sandbox"]["facts"]["level"] in shown
    for control in found["seccomp"]["controls"]:
        assert f"{control['name']:<24}before works, after" in shown


def test_without_fork_there_is_only_none(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delattr(os, "fork", raising=False)
    sandbox = conditions(capsys)["sandbox"]
    assert not sandbox["ok"] and sandbox["facts"] == {"level": "none"}
    assert "no boundary" in sandbox["detail"] and "Linux" in sandbox["fix"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="workers are forked")
def test_a_sandbox_that_does_not_start_is_a_finding_and_no_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    async def fails() -> Witness:
        raise SandboxError("the zygote ended")

    monkeypatch.setattr("disciple_ext.sandbox.host.host.witness", fails)
    sandbox = conditions(capsys)["sandbox"]
    assert not sandbox["ok"] and "the zygote ended" in sandbox["detail"]
