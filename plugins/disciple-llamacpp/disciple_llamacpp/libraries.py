"""llama.cpp as one of two packages brings it, loaded once and silent.

``llama_cpp`` (llama-cpp-python) is built on the user's machine and has ctypes bindings that fit it;
``xllamacpp`` comes as wheels, and its library is called by the layout of :mod:`.layout`.
"""

from __future__ import annotations

import ctypes
import importlib
import threading
from collections import deque
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from disciple_ext.errors import FollowerError, UsageError

from .layout import LAYOUT, bind

__all__ = ["PACKAGES", "Library", "load"]

_Log = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_char_p, ctypes.c_void_p)
_ERROR = 4  # of ggml's levels


def _llama_cpp() -> Any:
    return importlib.import_module("llama_cpp.llama_cpp")


def _xllamacpp() -> Any:
    spec = find_spec("xllamacpp")
    folders = spec.submodule_search_locations if spec is not None else None
    files = [file for folder in folders or () for file in Path(folder).glob("xllamacpp*.so")]
    if not files:
        raise OSError("it has no library whose functions can be called (on Windows there is none)")
    return bind(ctypes.CDLL(str(files[0])))


PACKAGES: dict[str, tuple[str, Callable[[], Any]]] = {
    "llama_cpp": ("llama-cpp-python", _llama_cpp),
    "xllamacpp": ("xllamacpp", _xllamacpp),
}
"""By the name of the module: that of the package, and what gives its functions; in this order."""


class Library:
    """The functions of one of them.

    Attributes:
        name: the module that it is of.
        c: its functions.
        said: the errors that it logged last, for messages.
    """

    def __init__(self, name: str) -> None:
        package, functions = PACKAGES[name]
        self.name = name
        try:
            self.c: Any = functions()
        except Exception as error:  # a library for another processor, a module that is missing
            raise FollowerError(
                f"{package} is installed, and its llama.cpp cannot be used: "
                f"{type(error).__name__}: {error}. {LAYOUT} is what xllamacpp must have "
                "(pip install 'xllamacpp==2026.10.11549'); any other goes by llama-cpp-python"
            ) from error
        self.said: deque[str] = deque(maxlen=20)
        # Kept, since the library calls it as long as it lives. By a prototype of our own:
        # bindings ask for a type of callback of their own.
        self._log = _Log(self._hear)
        prototype = ctypes.CFUNCTYPE(None, _Log, ctypes.c_void_p)
        prototype(("llama_log_set", self.c._lib))(self._log, None)
        self.c.llama_backend_init()

    def _hear(self, level: int, line: bytes, _: int | None) -> None:
        if level == _ERROR:
            self.said.append(line.decode("utf-8", "replace").strip())

    def complaint(self) -> str:
        """In brackets, the first error since ``said`` was cleared: later ones follow from it."""
        return f" ({self.said[0]})" if self.said else ""


_LOADED: dict[str, Library] = {}
_LOADING = threading.Lock()


def load(name: str | None = None) -> Library:
    """The library of a package, or of the first that is installed.

    Raises:
        UsageError: there is no such name.
        FollowerError: it is not installed, or cannot be used.
    """
    if name is not None and name not in PACKAGES:
        raise UsageError(f"the library {name!r} is none of {', '.join(PACKAGES)}")
    wanted = [name] if name is not None else list(PACKAGES)
    found = next((module for module in wanted if find_spec(module) is not None), None)
    if found is None:
        raise FollowerError(
            f"no llama.cpp is installed here ({' and '.join(wanted)} cannot be found): pip install "
            "'xllamacpp==2026.10.11549', or llama-cpp-python, which builds its own; or use "
            "'gguf:PATH', which needs neither"
        )
    with _LOADING:
        if found not in _LOADED:
            _LOADED[found] = Library(found)
        return _LOADED[found]
