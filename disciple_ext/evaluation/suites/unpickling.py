"""Reads a pickle as data: nothing that is in it runs, and no class of it is imported.

Pickles, dill's among them, name functions to call. Here each name gives a record that only holds
what it is given, and names outside the allow-list are refused before anything is called.
"""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

from ...errors import EvaluationError

__all__ = ["PickledObject", "read_pickle"]

_MODULES = ("collie", "datetime", "numpy")
"""Packages whose classes may be named: they come out as records."""


class PickledObject:
    """What a class of a pickle comes out as: its name, arguments and state."""

    name = ""

    def __new__(cls, *args: Any, **kwargs: Any) -> PickledObject:
        """Make a record, whatever the class would have taken."""
        record = super().__new__(cls)
        record.args = args
        # Set here and not in __init__, which an unpickler need not call.
        record.state = kwargs
        return record

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args: tuple[Any, ...]
        self.state: Any

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __repr__(self) -> str:
        return f"<record of {self.name}>"


class _Mapping(dict[Any, Any]):
    """A dictionary of any kind, without what makes its missing entries."""

    def __init__(self, *args: Any) -> None:
        super().__init__()


def _reconstructor(kind: Any, base: Any, state: Any) -> Any:
    """``copyreg._reconstructor``, for records alone."""
    if not (isinstance(kind, type) and issubclass(kind, PickledObject)):
        raise pickle.UnpicklingError("it makes an object of a kind that is no record")
    return kind()


def _singleton(text: str) -> Any:
    """How dill writes ``...``: as a text to evaluate."""
    found = {"Ellipsis": ..., "None": None, "NotImplemented": NotImplemented}
    if text not in found:
        raise pickle.UnpicklingError(f"it evaluates {text[:80]!r}")
    return found[text]


_PLAIN: dict[tuple[str, str], Any] = {
    ("builtins", "Ellipsis"): ...,
    ("builtins", "bytearray"): bytearray,
    ("builtins", "frozenset"): frozenset,
    ("builtins", "list"): list,
    ("builtins", "object"): object,
    ("builtins", "set"): set,
    ("builtins", "tuple"): tuple,
    ("builtins", "dict"): _Mapping,
    ("collections", "OrderedDict"): _Mapping,
    ("collections", "defaultdict"): _Mapping,
    ("copyreg", "_reconstructor"): _reconstructor,
    ("dill._dill", "_eval_repr"): _singleton,
}


class _Reader(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in _PLAIN:
            return _PLAIN[module, name]
        if module.partition(".")[0] in _MODULES:
            # A new class each time, which is never looked up: no module is imported for it.
            return type("PickledObject", (PickledObject,), {"name": f"{module}.{name}"})
        raise pickle.UnpicklingError(f"it names {module}.{name}, which is no data")

    def persistent_load(self, pid: Any) -> Any:
        raise pickle.UnpicklingError("it refers to objects outside of the file")


def read_pickle(path: str | Path) -> Any:
    """What is in a pickle: plain data, a :class:`PickledObject` for objects of known packages.

    Raises:
        EvaluationError: it cannot be read, or asks for anything that is not data; then nothing of
            it has run.
    """
    try:
        with Path(path).open("rb") as file:
            return _Reader(file).load()
    except OSError as error:
        raise EvaluationError(f"{path} cannot be read: {error}") from error
    except Exception as error:  # a damaged pickle may raise nearly anything
        raise EvaluationError(
            f"{path} is no data file that can be read safely: {error}. Nothing of it was run. If "
            "it is COLLIE's own all_data.dill, download it again"
        ) from error
