"""What the package itself registers, through the same hooks as any plugin."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from .errors import UsageError
from .model.masks.base import Mask
from .model.masks.characters import ALL_MASKS
from .model.masks.formal import FORMAL_MASKS
from .registry.hookspecs import hookimpl
from .registry.specs import call, split_model
from .samplers.base import Sampler
from .samplers.importance import ImportanceSampler
from .samplers.rejection import RejectionSampler
from .samplers.smc import SMCSampler
from .samplers.smc_steer import SteerSampler

__all__: list[str] = []


@hookimpl
def register_samplers() -> dict[str, Callable[[], Sampler]]:
    """Importance, SMC (with and without replacement) and rejection sampling."""
    return {
        "is": ImportanceSampler,
        "rs": RejectionSampler,
        "smc": SMCSampler,
        "smc-steer": SteerSampler,
    }


@hookimpl
def register_masks() -> dict[str, type[Mask]]:
    """The masks of the program API."""
    return {mask.__name__: mask for mask in (*ALL_MASKS, *FORMAL_MASKS)}


@hookimpl
def register_planners() -> dict[str, Callable[..., Any]]:
    """The offline expert, any OpenAI-compatible endpoint, recordings, and the follower itself."""

    # Imports stand inside the factories: listing what there is should load none of it.
    def expert(argument: str) -> Any:
        from .planner.expert.planner import ExpertPlanner

        _no_argument("expert", argument)
        return ExpertPlanner()

    def openai(
        model: str, cache: bool = True, record: str | None = None, prices: str | None = None
    ) -> Any:
        from .planner.chat.openai import OpenAIPlanner

        if not model:
            raise UsageError("name the planner's model, as in 'openai:gpt-4o'")
        return OpenAIPlanner(model, cache=cache, record=record, prices=prices)

    def replay(directory: str) -> Any:
        from .planner.chat.recording import RecordedPlanner

        if not directory:
            raise UsageError("name the directory of the recordings, as in 'replay:DIR'")
        return RecordedPlanner(directory)

    def follower(argument: str, record: str | None = None) -> Any:
        from .planner.chat.follower import FollowerPlanner

        _no_argument("follower", argument)
        return FollowerPlanner(record=record)

    return {"expert": expert, "follower": follower, "openai": openai, "replay": replay}


@hookimpl
def register_followers() -> dict[str, Callable[[str], Any]]:
    """The embedded follower, those of the catalogue, GGUF files, and Hugging Face models."""
    # Inside, because this module is loaded in the zygote, too, which has no use for followers.
    from .models.catalogue import catalogue

    def embedded(argument: str) -> Any:
        from .follower import hf

        _no_argument("embedded", argument)
        return hf.embedded()

    def gguf(argument: str) -> Any:
        from .follower.gguf.load import from_gguf

        def load(
            path: str,
            dtype: str | None = None,
            device: str | None = None,
            threads: int | None = None,
        ) -> Any:
            placed: dict[str, Any] = {"dtype": dtype, "device": device, "threads": threads}
            return from_gguf(path, name=f"gguf:{argument}", **placed)

        if not argument or argument.startswith(","):
            raise UsageError("name the follower's file, as in 'gguf:./model.gguf'")
        return _load("gguf", load, argument)

    def hugging_face(argument: str) -> Any:
        from .follower import hf

        def load(
            path: str,
            dtype: str | None = None,
            device: str | None = None,
            device_map: str | None = None,
            threads: int | None = None,
        ) -> Any:
            placed: dict[str, Any] = {"dtype": dtype, "device": device, "threads": threads}
            placed["device_map"] = device_map
            return hf.from_pretrained(path, name=f"hf:{argument}", **placed)

        _need_argument("hf", argument)
        return _load("hf", load, argument)

    def vllm(argument: str) -> Any:
        from .follower.vllm import from_capture

        _need_argument("vllm", argument)
        return from_capture(argument)

    def vllm_logprobs(argument: str) -> Any:
        from .follower.vllm import from_logprobs

        _need_argument("vllm-logprobs", argument)
        return from_logprobs(argument)

    def added(name: str, argument: str) -> Any:
        from .follower.gguf.load import from_gguf
        from .models.store import find

        def load(
            dtype: str | None = None, device: str | None = None, threads: int | None = None
        ) -> Any:
            placed: dict[str, Any] = {"dtype": dtype, "device": device, "threads": threads}
            spec = f"{name},{argument}" if argument else name
            made = from_gguf(str(find(name)), name=spec, **placed)
            made.base_measure = catalogue()[name].base_measure
            return made

        return call("follower", name, load, argument, after=",") if argument else load()

    return {
        **{name: partial(added, name) for name in catalogue()},
        "embedded": embedded,
        "gguf": gguf,
        "hf": hugging_face,
        "vllm": vllm,
        "vllm-logprobs": vllm_logprobs,
    }


@hookimpl
def register_services() -> dict[str, Callable[[str], Any]]:
    """A judge, a reward model, either of them for each step, and the user's own Python."""

    def judge(argument: str) -> Any:
        from .services.judge import Judge

        return _with_options("judge", Judge, argument, "a chat model, as in 'judge:gpt-4o-mini'")

    def reward(argument: str) -> Any:
        from .services.reward import Reward

        return _with_options("reward", Reward, argument, "a classifier, as in 'reward:PATH'")

    def steps(argument: str) -> Any:
        from .services.score import Steps

        return Steps(reward(argument))

    def python(argument: str) -> Any:
        from .services.load import from_python

        return from_python(argument)

    return {"judge": judge, "python": python, "reward": reward, "steps": steps}


def _load(name: str, load: Callable[..., Any], argument: str) -> Any:
    """Load a follower from ``PATH,OPTION=VALUE,...``; the path may have commas of its own."""
    path, options = split_model(argument)
    if not options or Path(argument).expanduser().exists():
        return load(argument)
    return call("follower", name, partial(load, path), options, after=":PATH,")


def _with_options(name: str, factory: Callable[..., Any], argument: str, what: str) -> Any:
    """Call a factory with ``MODEL,OPTION=VALUE,...``."""
    model, _, options = argument.partition(",")
    if not model:
        raise UsageError(f"name {what}; options follow after a comma, as in ',temperature=0.5'")
    # The model first and apart: `call` knows named options only.
    if not options:
        return factory(model)
    return call("service", name, partial(factory, model), options, after=":MODEL,")


def _need_argument(name: str, model: str) -> None:
    if not model or model.startswith(","):
        raise UsageError(
            f"name the follower's model, as in '{name}:PATH' or '{name}:ORGANISATION/NAME'"
        )


def _no_argument(name: str, argument: str) -> None:
    if argument:
        raise UsageError(f"{name!r} takes no argument, but got {argument!r}")


@hookimpl
def register_suites() -> dict[str, Callable[[], Any]]:
    """COLLIE, its tasks on words in instances of our own, and the paper's PUZZLES."""

    def collie() -> Any:
        from .evaluation.suites.registered import collie as made

        return made()

    def puzzles() -> Any:
        from .evaluation.suites.registered import puzzles as made

        return made()

    def words() -> Any:
        from .evaluation.suites.registered import words as made

        return made()

    return {"collie": collie, "puzzles": puzzles, "words": words}
