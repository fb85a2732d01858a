"""From a sampler's name to a package that holds it, with tests that pass.

The templates lie beside this file, in ``sampler/``. They are rendered with
:class:`string.Template`, in which ``$name`` stands for a value.
"""

from __future__ import annotations

import importlib.util
import re
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from string import Template

from ..errors import UsageError
from ..registry.plugins import Registry, load_plugins
from ..version import __version__

__all__ = ["Names", "NewPlugin", "new_sampler", "render"]

LONGEST = 32
"""Characters of a name: with more, lines of the package would be too long."""

_NAME = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
# Each file of the package, and its template.
_FILES = {
    "pyproject.toml": "pyproject.toml",
    "README.md": "README.md",
    "CHANGELOG.md": "CHANGELOG.md",
    "LICENSE": "LICENSE",
    ".gitignore": "gitignore",
    "{module}/__init__.py": "init.py",
    "{module}/sampler.py": "sampler.py",
    "tests/test_{name}.py": "test.py",
}


@dataclass(frozen=True)
class Names:
    """What a new plugin is called, in each place.

    Attributes:
        name: the sampler, and the plugin's entry point.
    """

    name: str

    def __post_init__(self) -> None:
        if not _NAME.fullmatch(self.name) or len(self.name) > LONGEST:
            raise UsageError(
                f"{self.name!r} cannot name a sampler and a distribution: use lower-case letters, "
                f"digits and single dashes, beginning with a letter, at most {LONGEST} characters "
                "in all, as in 'tempered-smc'"
            )

    @property
    def distribution(self) -> str:
        """What pip calls the package."""
        return f"disciple-{self.name}"

    @property
    def module(self) -> str:
        """What Python imports."""
        return self.distribution.replace("-", "_")

    @property
    def cls(self) -> str:
        """The sampler's class."""
        words = "".join(word.capitalize() for word in self.name.split("-"))
        return f"{words}Sampler"


@dataclass(frozen=True)
class NewPlugin:
    """A package that was written.

    Attributes:
        names: what it is called.
        directory: where it is.
        files: what was written, relative to the directory.
    """

    names: Names
    directory: Path
    files: tuple[str, ...]


def new_sampler(name: str, out: str | Path | None = None) -> NewPlugin:
    """Write a package with a sampler plugin.

    Args:
        name: name of the sampler.
        out: directory to write to, new or empty; ``./disciple-NAME`` where it is None.

    Raises:
        UsageError: the name cannot be used or is taken, or the directory is there and not empty,
            or cannot be written. Nothing is overwritten.
    """
    names = Names(name)
    _refuse_taken(names, load_plugins())
    directory = Path(out if out is not None else names.distribution)
    made = render(names)
    try:
        if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
            raise UsageError(
                f"{directory} is there already and not an empty directory; nothing was written. "
                "Name another with --out"
            )
        for place, text in made.items():
            path = directory / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"the plugin cannot be written to {directory}: {error}") from error
    return NewPlugin(names, directory, tuple(made))


def render(names: Names) -> dict[str, str]:
    """The package's files: path to text."""
    values = {
        "name": names.name,
        "distribution": names.distribution,
        "module": names.module,
        "cls": names.cls,
        "versions": _compatible(__version__),
    }
    folder = files(__package__) / "sampler"
    paths = {"module": names.module, "name": names.name.replace("-", "_")}
    made = {
        place.format(**paths): Template(
            (folder / f"{template}.tmpl").read_text(encoding="utf-8")
        ).substitute(values)
        for place, template in _FILES.items()
    }
    return {**made, f"{names.module}/py.typed": ""}


def _refuse_taken(names: Names, registry: Registry) -> None:
    if names.name in registry.tables["samplers"]:
        owner = registry.owners["samplers", names.name]
        raise UsageError(
            f"there is a sampler {names.name!r} already, of the plugin {owner!r}; choose another "
            "name (`disciple samplers` lists all)"
        )
    if names.name in {plugin.name for plugin in registry.plugins}:
        raise UsageError(f"there is a plugin {names.name!r} already; choose another name")
    if importlib.util.find_spec(names.module) is not None:
        raise UsageError(
            f"there is a Python module {names.module!r} already, which the plugin's would hide or "
            "be hidden by; choose another name"
        )


def _compatible(version: str) -> str:
    """The versions of disciple-ext that a plugin made today may be used with.

    Semantic Versioning: before 1.0 a minor version may break what uses it, from then on a major.
    """
    major, minor = (int(part) for part in version.split(".")[:2])
    upper = f"0.{minor + 1}" if major == 0 else f"{major + 1}"
    return f">={major}.{minor},<{upper}"
