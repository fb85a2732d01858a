from __future__ import annotations

import types
from typing import Any

import pytest

from disciple_ext import hookimpl, run_program, self_steer
from disciple_ext import plugins as loading
from disciple_ext.errors import PlannerError, PluginError, UsageError
from disciple_ext.model.masks import PunctuationMask
from disciple_ext.plugins import load_plugins
from disciple_ext.samplers.importance import ImportanceSampler
from disciple_ext.testing import ReplayPlanner, ToyFollower


class Mine(ImportanceSampler):
    name = "mine"


class Dashes(PunctuationMask):
    """The next token is a dash.

    Nothing else is.
    """

    def __init__(self, particle: Any) -> None:
        super().__init__(particle, "-")


class Plugin:
    """Registers a sampler, a mask, a pattern and an observer."""

    def __init__(self) -> None:
        self.events: list[Any] = []

    @hookimpl
    def register_samplers(self) -> dict[str, Any]:
        return {"mine": Mine}

    @hookimpl
    def register_masks(self) -> dict[str, Any]:
        return {"DashMask": Dashes}

    @hookimpl
    def register_patterns(self) -> dict[str, Any]:
        return {"twice": (lambda text: text * 2, "twice(text): the text, twice.")}

    @hookimpl
    def observe(self, event: Any) -> None:
        self.events.append(event)


class Point:
    def __init__(self, name: str, plugin: Any) -> None:
        self.name, self.plugin = name, plugin
        self.dist = types.SimpleNamespace(name=f"dist-{name}", version="1.2")

    def load(self) -> Any:
        if isinstance(self.plugin, Exception):
            raise self.plugin
        return self.plugin


@pytest.fixture
def install(monkeypatch: pytest.MonkeyPatch) -> Any:
    def put(**found: Any) -> None:
        points = [Point(name, plugin) for name, plugin in found.items()]
        monkeypatch.setattr(loading, "entry_points", lambda group: points)

    monkeypatch.delenv("DISCIPLE_PLUGINS", raising=False)
    put()
    return put


def test_what_plugins_add_to_programs_is_told_to_planners(install: Any) -> None:
    assert load_plugins().paragraphs() == ()
    install(extra=Plugin())
    registry = load_plugins()
    told = ("`DashMask`: The next token is a dash.", "`twice`: twice(text): the text, twice.")
    assert registry.paragraphs() == told
    planner = ReplayPlanner([])
    planner.paragraphs = ()  # type: ignore[attr-defined]
    with pytest.raises(PlannerError):
        self_steer("a task", planner=planner, registry=registry, sandbox="none")
    assert planner.paragraphs == registry.paragraphs()  # type: ignore[attr-defined]


def test_the_built_ins_come_through_the_same_hooks(install: Any) -> None:
    registry = load_plugins()
    assert set(registry.tables["samplers"]) == {"is", "rs", "smc", "smc-steer"}
    assert {"MaxCharsMask", "ChoiceMask"} <= set(registry.tables["masks"])
    assert [p.name for p in registry.plugins] == ["builtin"]
    assert registry.make("samplers", "smc").name == "smc"


def test_a_plugins_names_are_there_in_programs_and_specs(install: Any) -> None:
    plugin = Plugin()
    install(extra=plugin)
    registry = load_plugins()
    info = registry.plugins[-1]
    assert (info.name, info.origin, info.version) == ("extra", "dist-extra", "1.2")
    assert "observe" in info.hooks and "register_masks" in info.hooks
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        async with DashMask(self):
            assert twice(await self.next_token()) == "--"
        await self.end()
"""
    toy = ToyFollower.random(1, ["a", "-"])
    result = run_program(
        source, follower=toy, sampler="mine", sandbox="none", n=2, registry=registry
    )
    assert result.text == "-" and len(plugin.events) >= 3


def test_two_plugins_with_one_name_are_an_error_that_names_both(install: Any) -> None:
    install(one=Plugin(), two=Plugin())
    with pytest.raises(PluginError, match="'one' and 'two'.*'mine'.*DISCIPLE_PLUGINS=-two"):
        load_plugins()


def test_plugins_can_be_chosen_and_blocked(install: Any, monkeypatch: Any) -> None:
    class Other:
        @hookimpl
        def register_samplers(self) -> dict[str, Any]:
            return {"other": Mine}

    install(one=Plugin(), two=Other())

    def names(setting: str) -> list[str]:
        monkeypatch.setenv("DISCIPLE_PLUGINS", setting)
        return [p.name for p in load_plugins().plugins]

    assert names("") == ["builtin"]
    assert names("two") == ["builtin", "two"]
    assert names("-two") == ["builtin", "one"]
    assert names("one, two") == ["builtin", "one", "two"]
    assert [p.name for p in load_plugins(installed=False).plugins] == ["builtin"]


def test_broken_plugins_are_named_in_a_warning_and_skipped(install: Any) -> None:
    class Raises:
        @hookimpl
        def register_samplers(self) -> dict[str, Any]:
            raise RuntimeError("no licence")

    class NoDict:
        @hookimpl
        def register_masks(self) -> Any:
            return ["a"]

    class WrongArguments:
        @hookimpl
        def observe(self, incident: Any) -> None: ...

    for plugin, match in [
        (ImportError("no torchaudio"), "torchaudio"),
        (Raises(), "no licence"),
        (NoDict(), "list, not a dict"),
        (WrongArguments(), "observe"),
    ]:
        install(bad=plugin)
        with pytest.warns(RuntimeWarning, match="'bad'.*skipped.*" + match):
            registry = load_plugins()
        assert [p.name for p in registry.plugins] == ["builtin"]


@pytest.mark.parametrize(
    ("kind", "spec", "match"),
    [
        ("samplers", "gibbs", "there are: is, rs, smc, smc-steer"),
        ("samplers", "is:3", "takes no argument"),
        ("planners", "expert:x", "takes no argument"),
        ("planners", "openai", "openai:"),
        ("followers", "hf:", "hf:PATH"),
        ("followers", "embedded:large", "takes no argument"),
    ],
)
def test_wrong_specs(install: Any, kind: str, spec: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        load_plugins().make(kind, spec)
