from __future__ import annotations

import types
from typing import Any

import pytest

from disciple_ext import hookimpl, run_program, self_steer
from disciple_ext.errors import PlannerError, PluginError, UsageError
from disciple_ext.model.masks.characters import PunctuationMask
from disciple_ext.registry import points as finding
from disciple_ext.registry.plugins import Hook, load_plugins
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
        monkeypatch.setattr(finding, "entry_points", lambda group: points)

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
    assert info.hooks == (
        Hook("register_samplers", "worker"),
        Hook("register_masks", "worker"),
        Hook("register_patterns", "worker"),
        Hook("observe", "host"),
    )
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
    both = r"'one' \(dist-one 1.2\) and 'two' \(dist-two 1.2\) both register the sampler 'mine'"
    with pytest.raises(PluginError, match=both + ".*DISCIPLE_PLUGINS=-two"):
        load_plugins()


def test_programs_find_masks_and_patterns_in_one_namespace(install: Any) -> None:
    class Hides:
        @hookimpl
        def register_patterns(self) -> dict[str, Any]:
            return {"MaxCharsMask": (len, "MaxCharsMask(text): its length.")}

    install(hides=Hides())
    with pytest.raises(PluginError, match="'builtin'.*and 'hides'.*'MaxCharsMask'"):
        load_plugins()


@pytest.mark.parametrize("name", ["one", "builtin"])
def test_two_entry_points_of_one_name_are_an_error_that_names_both(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    points = [Point(name, Plugin()), Point(name, Plugin())]
    points[1].dist.name = "dist-other"
    monkeypatch.delenv("DISCIPLE_PLUGINS", raising=False)
    monkeypatch.setattr(finding, "entry_points", lambda group: points)
    first = "dist-one 1.2" if name == "one" else "disciple-ext"
    with pytest.raises(PluginError, match=f"one name: '{name}' .{first}.*and '{name}' .dist-"):
        load_plugins()
    monkeypatch.setenv("DISCIPLE_PLUGINS", f"-{name}")
    assert [p.name for p in load_plugins().plugins] == ["builtin"]


def test_what_the_environment_names_and_is_not_there_is_named_once(
    install: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(one=Plugin())
    monkeypatch.setenv("DISCIPLE_PLUGINS", "one,tow")
    with pytest.warns(RuntimeWarning, match="'tow'; installed are: one$") as said:
        registry = load_plugins()
    assert len(said) == 1 and registry.plugins[-1].name == "one"


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


def table(hook: str, entries: Any) -> Any:
    """A plugin that returns ``entries`` from one hook."""

    def register() -> Any:
        if isinstance(entries, Exception):
            raise entries
        return entries

    return types.SimpleNamespace(**{hook: hookimpl(specname=hook)(register)})


class WrongArguments:
    @hookimpl
    def observe(self, incident: Any) -> None: ...


class Misspelt:
    @hookimpl
    def register_smaplers(self) -> dict[str, Any]:
        return {"mine": Mine}


class MisspeltWithoutMark:
    def register_sampler(self) -> dict[str, Any]:
        return {"mine": Mine}


class Unmarked:
    def register_samplers(self) -> dict[str, Any]:
        return {"mine": Mine}


@pytest.mark.parametrize(
    ("plugin", "match"),
    [
        (ImportError("no torchaudio"), "cannot be imported: ImportError: no torchaudio"),
        (table("register_samplers", RuntimeError("no licence")), "no licence"),
        (table("register_masks", ["a"]), "returned list, not a dict"),
        (WrongArguments(), "observe"),
        (Misspelt(), "no hook 'register_smaplers'; did you mean 'register_samplers'"),
        (MisspeltWithoutMark(), "no hook 'register_sampler'; did you mean 'register_samplers'"),
        (Unmarked(), "register_samplers is not marked with @disciple_ext.hookimpl"),
        (table("register_samplers", {1: Mine}), "the name 1, which is int, not str"),
        (table("register_samplers", {"a b": Mine}), "the name 'a b'; names in specs"),
        (table("register_samplers", {"a:b": Mine}), "the name 'a:b'; names in specs"),
        (table("register_samplers", {"a,b": Mine}), "the name 'a,b'; names in specs"),
        (table("register_planners", {"": Mine}), "the name ''; names in specs"),
        (table("register_samplers", {"a": 3}), "gives 'a' a int that cannot be called"),
        (table("register_samplers", {"a": Mine()}), "cannot be called without arguments"),
        (table("register_samplers", {"a": lambda x: x}), "cannot be called without arguments"),
        (table("register_planners", {"a": lambda: 1}), "cannot be called with one argument"),
        (table("register_masks", {"Mask": lambda particle: 1}), "a function, not a class"),
        (table("register_masks", {"class": Dashes}), "'class', which no program can write"),
        (table("register_patterns", {"a-b": (len, "")}), "'a-b', which no program can write"),
        (table("register_patterns", {"count": len}), "not a pair"),
        (table("register_patterns", {"count": (len, 3)}), "not a pair"),
    ],
)
def test_broken_plugins_are_named_in_one_warning_and_skipped(
    install: Any, plugin: Any, match: str
) -> None:
    class Fine:
        @hookimpl
        def register_samplers(self) -> dict[str, Any]:
            return {"fine": Mine}

    install(bad=plugin, good=Fine())
    skipped = r"'bad' \(dist-bad 1.2\) is skipped: .*"
    with pytest.warns(RuntimeWarning, match=skipped + match) as said:
        registry = load_plugins()
    assert len(said) == 1
    assert [p.name for p in registry.plugins] == ["builtin", "good"]
    assert registry.make("samplers", "fine").name == "mine"


def test_helpers_named_like_hooks_do_no_harm(install: Any) -> None:
    class Helps:
        def register_backend(self) -> None: ...

        @hookimpl(specname="register_samplers")
        def all_samplers(self) -> dict[str, Any]:
            return {"mine": Mine}

    install(helps=Helps())
    assert "mine" in load_plugins().tables["samplers"]


def test_a_factory_that_fails_is_the_plugins_error(install: Any) -> None:
    class Fails:
        @hookimpl
        def register_samplers(self) -> dict[str, Any]:
            return {"fails": lambda: 1 / 0, "number": lambda: 3}

    install(fails=Fails())
    registry = load_plugins()
    with pytest.raises(PluginError, match="'fails' of the plugin 'fails'.*ZeroDivisionError"):
        registry.make("samplers", "fails")
    with pytest.raises(PluginError, match="gives 'number', which makes no sampler but a int"):
        registry.make("samplers", "number")


@pytest.mark.parametrize(
    ("kind", "spec", "match"),
    [
        ("samplers", "gibbs", "there are: is, rs, smc, smc-steer"),
        ("samplers", "is:x=3", "takes no options"),
        ("samplers", "smc:", "'' is no option.*ess_threshold=0.5,scheme=stratified"),
        ("samplers", "smc:0.5", "'0.5' is no option"),
        ("samplers", "smc:ess=0.5", "'smc' has no option 'ess'; .*ess_threshold=0.5,scheme="),
        ("samplers", "smc:ess_threshold=high", "from 0 to 1, not 'high'"),
        ("samplers", "smc:scheme=lottery", "unknown resampling scheme 'lottery'"),
        ("samplers", "smc-steer:beam_factor=1.5", "a whole number from 1 on, not 1.5"),
        ("samplers", "rs:batch=0", "batch must be a whole number from 1 on, not 0"),
        ("planners", "expert:x", "takes no argument"),
        ("planners", "openai", "openai:"),
        ("followers", "hf:", "hf:PATH"),
        ("followers", "embedded:large", "takes no argument"),
    ],
)
def test_wrong_specs(install: Any, kind: str, spec: str, match: str) -> None:
    with pytest.raises(UsageError, match=match):
        load_plugins().make(kind, spec)


def test_options_reach_the_sampler(install: Any) -> None:
    registry = load_plugins()
    smc = registry.make("samplers", "smc:ess_threshold=0.7, scheme=systematic")
    assert (smc.ess_threshold, smc.scheme) == (0.7, "systematic")
    rs = registry.make("samplers", "rs:stop_after=null,batch=4")
    assert (rs.stop_after, rs.batch) == (None, 4)
    assert registry.make("samplers", "rs:stop_after=1").kind == "search"


def test_options_go_along_into_the_sandbox() -> None:
    source = """
class InferenceModel(BaseModel):
    async def step(self):
        await self.next_token()
        if self.context.token_count == 6:
            await self.end()
"""
    events: list[Any] = []

    def resamplings(threshold: float) -> int:
        events.clear()
        sampler = f"smc:ess_threshold={threshold},scheme=multinomial"
        follower = ToyFollower.random(1, ["a", "b"])
        result = run_program(
            source,
            follower=follower,
            sampler=sampler,
            n=4,
            sandbox="process",
            on_event=events.append,
        )
        assert result.sandbox["witnessed"] != "none"
        return sum(type(event).__name__ == "Resampled" for event in events)

    assert resamplings(0) == 0
    assert resamplings(1) > 0
