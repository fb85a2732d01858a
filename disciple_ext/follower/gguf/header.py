"""The header of a GGUF file: its metadata, and where its tensors lie.

Every length in it is checked against the size of the file before anything is read by it, so a cut
or damaged file ends in a sentence. The format is described in ggml's docs/gguf.md.
"""

from __future__ import annotations

import mmap
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

from ...errors import FollowerError

__all__ = ["ARRAY", "STRING", "Header", "Tensor", "Value", "read_header"]

_SCALARS = dict(zip((0, 1, 2, 3, 4, 5, 6, 7, 10, 11, 12), "BbHhIif?Qqd", strict=True))
"""Format of each type of number, as :mod:`struct` writes it."""
STRING, ARRAY = 8, 9
"""The other two types of a value."""
_ALIGNMENT = 32
_MAX_DIMENSIONS = 4  # ggml's own limit
_AGAIN = "it may have been cut off on its way, so fetch it again"


@dataclass(frozen=True, slots=True)
class Value:
    """A value of the metadata.

    Attributes:
        types: its type; for an array, that of its items too.
        items: the numbers, or texts as bytes; one for each item of an array.
    """

    types: tuple[int, ...]
    items: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor in the file.

    Attributes:
        name: as GGUF calls it, ``blk.0.attn_q.weight``.
        shape: its sizes, the one that changes fastest first, as they stand in the file.
        kind: number of its type (float32, Q4_1, ...).
        start: its first byte in the file.
    """

    name: str
    shape: tuple[int, ...]
    kind: int
    start: int

    @property
    def elements(self) -> int:
        """How many numbers it holds."""
        return prod(self.shape)


@dataclass(frozen=True)
class Header:
    """What stands before the weights.

    Attributes:
        path: the file.
        size: its bytes.
        fields: its metadata by name.
        tensors: its tensors, in the order of the file.
    """

    path: Path
    size: int
    fields: Mapping[str, Value]
    tensors: tuple[Tensor, ...]

    def text(self, key: str) -> str | None:
        """A text of the metadata, or None where there is none."""
        value = self.fields.get(key)
        if value is None or value.types != (STRING,):
            return None
        text: bytes = value.items[0]
        return text.decode("utf-8", "replace")

    def number(self, key: str) -> int | None:
        """A whole number of the metadata, or None where there is none."""
        value = self.fields.get(key)
        if value is None or len(value.types) > 1 or not isinstance(value.items[0], int):
            return None
        return value.items[0]

    def items(self, key: str) -> tuple[Any, ...]:
        """The items of an array, texts as bytes; empty where there is none."""
        value = self.fields.get(key)
        return value.items if value is not None and value.types[0] == ARRAY else ()


def read_header(path: Path) -> Header:
    """Read the header of a file.

    Raises:
        FollowerError: there is no such file, it is no GGUF file, or a damaged one.
    """
    try:
        with path.open("rb") as file:
            start = file.read(64)
            _need_magic(path, start)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return _Reader(path, data).header()
    except IsADirectoryError as error:
        raise _directory(path) from error
    except FileNotFoundError as error:
        raise FollowerError(
            f"there is no file {str(path)!r}; give the path of a GGUF file, as in "
            "'gguf:./model.gguf'"
        ) from error
    except OSError as error:
        if path.is_dir():  # where the system says less
            raise _directory(path) from error
        raise FollowerError(
            f"the model {str(path)!r} cannot be read: {error.strerror or error}"
        ) from error


def _directory(path: Path) -> FollowerError:
    files = sorted(path.glob("*.gguf"))
    if files:
        advice = f"name a file in it, as in 'gguf:{files[0]}'"
    elif (path / "config.json").is_file():
        advice = f"it holds a Hugging Face model: use 'hf:{path}'"
    else:
        advice = "and it holds no GGUF file"
    return FollowerError(f"{str(path)!r} is a directory; {advice}")


_OTHERS = (
    (b"version https://git-lfs", "it is a Git LFS pointer: fetch the file itself, `git lfs pull`"),
    (b"<", "it looks like a web page: fetch the file itself"),
    (
        b"PK",
        "it looks like a zip archive (a PyTorch checkpoint, perhaps): 'hf:DIRECTORY' reads those",
    ),
    (b"FUGG", "its bytes are in the other order (big-endian): convert it again on this machine"),
    (b"gg", "it is of a format older than GGUF: convert the model again with a current llama.cpp"),
    (
        b"lmgg",
        "it is of a format older than GGUF: convert the model again with a current llama.cpp",
    ),
)


def _need_magic(path: Path, start: bytes) -> None:
    if start.startswith(b"GGUF"):
        return
    advice = next(
        (advice for magic, advice in _OTHERS if start.startswith(magic)),
        "give the path of a file that ends in .gguf",
    )
    if start[8:10] == b'{"':
        advice = "it looks like safetensors: give 'hf:' the directory that it lies in"
    what = f"it begins with {start[:4]!r}" if start else "it is empty"
    raise FollowerError(f"{str(path)!r} is no GGUF file ({what}); {advice}")


class _Reader:
    """Reads values one after the other."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.at = 4  # behind the magic

    def header(self) -> Header:
        version = self.scalar("I")
        if version not in (2, 3):
            # A small number in the other order has nothing in its low half.
            swapped = version & 0xFFFF == 0
            why = (
                "its bytes are in the other order than this machine's"
                if swapped
                else f"it is of version {version}, and 2 and 3 can be read"
            )
            raise FollowerError(
                f"the GGUF file {str(self.path)!r} cannot be read: {why}; convert the model again "
                "with a current llama.cpp"
            )
        tensors, pairs = self.scalar("Q"), self.scalar("Q")
        self.need(pairs * 13 + tensors * 32)  # the fewest bytes that they take
        fields: dict[str, Value] = {}
        for _ in range(pairs):
            key = self.name()
            if key in fields:
                raise self.damaged(f"it has {key!r} twice")
            fields[key] = self.value()
        infos = [self.tensor() for _ in range(tensors)]
        alignment = fields.get("general.alignment", Value((4,), (_ALIGNMENT,))).items[0]
        if not isinstance(alignment, int) or alignment < 1 or alignment & (alignment - 1):
            raise self.damaged(f"its alignment is {alignment!r}")
        base = -(-self.at // alignment) * alignment
        if len({name for name, *_ in infos}) < len(infos):
            raise self.damaged("two of its tensors have one name")
        placed = tuple(Tensor(name, shape, kind, base + at) for name, shape, kind, at in infos)
        return Header(self.path, self.size, fields, placed)

    def need(self, count: int) -> None:
        """Check that so many bytes follow."""
        if count > self.size - self.at:
            raise self.damaged("it ends within its header")

    def damaged(self, what: str) -> FollowerError:
        return FollowerError(f"the GGUF file {str(self.path)!r} is damaged: {what}; {_AGAIN}")

    def scalar(self, form: str) -> Any:
        return self.scalars(form, 1)[0]

    def scalars(self, form: str, count: int) -> tuple[Any, ...]:
        size = struct.calcsize(f"<{form}") * count
        self.need(size)
        found = struct.unpack_from(f"<{count}{form}", self.data, self.at)
        self.at += size
        return found

    def string(self) -> bytes:
        length = self.scalar("Q")
        self.need(length)
        found = self.data[self.at : self.at + length]
        self.at += length
        return found

    def name(self) -> str:
        try:
            return self.string().decode()
        except UnicodeDecodeError:
            raise self.damaged("a name in it is not UTF-8 text") from None

    def value(self) -> Value:
        kind = self.scalar("I")
        if kind == STRING:
            return Value((STRING,), (self.string(),))
        if kind == ARRAY:
            return self.array()
        if kind not in _SCALARS:
            raise self.damaged(f"a value in it is of the unknown type {kind}")
        return Value((kind,), self.scalars(_SCALARS[kind], 1))

    def array(self) -> Value:
        kind, count = self.scalar("I"), self.scalar("Q")
        if kind == STRING:
            # Each text has a length of 8 bytes: a wrong count is found before so many are read.
            self.need(8 * count)
            return Value((ARRAY, kind), tuple(self.string() for _ in range(count)))
        if kind not in _SCALARS:
            raise self.damaged(f"a list in it is of the unknown type {kind}")
        self.need(count)
        return Value((ARRAY, kind), self.scalars(_SCALARS[kind], count))

    def tensor(self) -> tuple[str, tuple[int, ...], int, int]:
        name = self.name()
        count = self.scalar("I")
        if not 1 <= count <= _MAX_DIMENSIONS:
            raise self.damaged(f"its tensor {name!r} has {count} dimensions")
        shape = self.scalars("Q", count)
        return name, shape, self.scalar("I"), self.scalar("Q")
