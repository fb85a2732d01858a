"""Self-steering language models: a planner writes an inference program, a small model runs it.

The names below are loaded when they are first used, so that ``import disciple_ext`` is cheap: it
loads neither torch nor plugins.
"""

from __future__ import annotations

import os
import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

from .version import __version__

# Else the threads of OpenMP, which torch computes with, spin while they wait for each other: beside
# a busy process a pass took ten times as long. It is read once, when torch is loaded.
if "torch" not in sys.modules:
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")

if TYPE_CHECKING:
    from .errors import DiscipleError as DiscipleError
    from .errors import EvaluationError as EvaluationError
    from .errors import FollowerError as FollowerError
    from .errors import LimitExceeded as LimitExceeded
    from .errors import NoParticleAlive as NoParticleAlive
    from .errors import PlannerError as PlannerError
    from .errors import PluginError as PluginError
    from .errors import ProgramCrashed as ProgramCrashed
    from .errors import ProgramError as ProgramError
    from .errors import ProgramRejected as ProgramRejected
    from .errors import SamplerError as SamplerError
    from .errors import SandboxError as SandboxError
    from .errors import SandboxUnavailable as SandboxUnavailable
    from .errors import ServiceError as ServiceError
    from .errors import TaskNotUnderstood as TaskNotUnderstood
    from .errors import UsageError as UsageError
    from .errors import WrongFamily as WrongFamily
    from .follower.llamppl.dropin import FollowerLM as FollowerLM
    from .follower.llamppl.dropin import TokenSequence as TokenSequence
    from .loop.steer import arun_program as arun_program
    from .loop.steer import aself_steer as aself_steer
    from .loop.steer import run_program as run_program
    from .loop.steer import self_steer as self_steer
    from .model.base import BaseModel as BaseModel
    from .model.context import FollowerContext as FollowerContext
    from .model.masks.characters import AvoidCharsMask as AvoidCharsMask
    from .model.masks.characters import AvoidWordsMask as AvoidWordsMask
    from .model.masks.characters import CharsMask as CharsMask
    from .model.masks.characters import ChoiceMask as ChoiceMask
    from .model.masks.characters import MaxCharsMask as MaxCharsMask
    from .model.masks.characters import PunctuationMask as PunctuationMask
    from .model.masks.characters import WordLengthMask as WordLengthMask
    from .model.masks.formal import GrammarMask as GrammarMask
    from .model.masks.formal import JsonMask as JsonMask
    from .model.masks.formal import RegexMask as RegexMask
    from .model.masks.formal import WordsMask as WordsMask
    from .protocol.measure import BaseMeasure as BaseMeasure
    from .protocol.measure import Measure as Measure
    from .records.program import Program as Program
    from .records.result import Attempt as Attempt
    from .records.result import Particle as Particle
    from .records.result import Result as Result
    from .records.result import Usage as Usage
    from .records.task import Limits as Limits
    from .records.task import Task as Task
    from .registry.hookspecs import hookimpl as hookimpl

_MODULES = {
    "errors": (
        "DiscipleError",
        "EvaluationError",
        "FollowerError",
        "LimitExceeded",
        "NoParticleAlive",
        "PlannerError",
        "PluginError",
        "ProgramCrashed",
        "ProgramError",
        "ProgramRejected",
        "SamplerError",
        "SandboxError",
        "SandboxUnavailable",
        "ServiceError",
        "TaskNotUnderstood",
        "UsageError",
        "WrongFamily",
    ),
    "follower.llamppl.dropin": ("FollowerLM", "TokenSequence"),
    "registry.hookspecs": ("hookimpl",),
    "model.base": ("BaseModel",),
    "model.context": ("FollowerContext",),
    "model.masks.formal": ("GrammarMask", "JsonMask", "RegexMask", "WordsMask"),
    "model.masks.characters": (
        "AvoidCharsMask",
        "AvoidWordsMask",
        "CharsMask",
        "ChoiceMask",
        "MaxCharsMask",
        "PunctuationMask",
        "WordLengthMask",
    ),
    "protocol.measure": ("BaseMeasure", "Measure"),
    "records.program": ("Program",),
    "records.result": ("Attempt", "Particle", "Result", "Usage"),
    "loop.steer": ("arun_program", "aself_steer", "run_program", "self_steer"),
    "records.task": ("Limits", "Task"),
}
_HOME = {name: module for module, names in _MODULES.items() for name in names}

__all__ = [
    "Attempt",
    "AvoidCharsMask",
    "AvoidWordsMask",
    "BaseMeasure",
    "BaseModel",
    "CharsMask",
    "ChoiceMask",
    "DiscipleError",
    "EvaluationError",
    "FollowerContext",
    "FollowerError",
    "FollowerLM",
    "GrammarMask",
    "JsonMask",
    "LimitExceeded",
    "Limits",
    "MaxCharsMask",
    "Measure",
    "NoParticleAlive",
    "Particle",
    "PlannerError",
    "PluginError",
    "Program",
    "ProgramCrashed",
    "ProgramError",
    "ProgramRejected",
    "PunctuationMask",
    "RegexMask",
    "Result",
    "SamplerError",
    "SandboxError",
    "SandboxUnavailable",
    "ServiceError",
    "Task",
    "TaskNotUnderstood",
    "TokenSequence",
    "Usage",
    "UsageError",
    "WordLengthMask",
    "WordsMask",
    "WrongFamily",
    "__version__",
    "arun_program",
    "aself_steer",
    "hookimpl",
    "run_program",
    "self_steer",
]


def __getattr__(name: str) -> Any:
    """Load a public name from its module on first use."""
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f".{home}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    """The public names, loaded or not."""
    return sorted({*globals(), *__all__})
