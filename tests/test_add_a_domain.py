"""The page on adding a domain shows the plugin as it is, and the plugin does what the page says."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import pytest

from disciple_ext import run_program
from disciple_ext.sandbox.check.check import check

ROOT = Path(__file__).resolve().parents[1]
PAGE = (ROOT / "docs" / "how-to" / "add-a-domain.md").read_text(encoding="utf-8")
PLUGIN = ROOT / "plugins" / "disciple-keywords"
_BLOCK = re.compile(r'^```\w+ title="([^"]+)"\n(.*?)^```$', re.DOTALL | re.MULTILINE)


@pytest.fixture
def keywords(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(PLUGIN))
    import disciple_keywords

    yield disciple_keywords
    sys.modules.pop("disciple_keywords")


def test_the_page_shows_every_line_of_the_plugin() -> None:
    shown: dict[str, list[str]] = {}
    for title, text in _BLOCK.findall(PAGE):
        shown.setdefault(title, []).append(text.strip())
    files = {"disciple_keywords/__init__.py", "disciple_keywords/program.py", "pyproject.toml"}
    assert set(shown) == files
    for title, parts in shown.items():
        written = (PLUGIN / title).read_text(encoding="utf-8").strip()
        assert re.sub(r"\n+", "\n", "\n".join(parts)) in re.sub(r"\n+", "\n", written), title
        if title.endswith(".py"):
            assert re.sub(r"\n+", "\n", "\n".join(parts)) == re.sub(r"\n+", "\n", written), title


def test_every_instance_has_a_program_and_forms_to_choose_from(keywords: Any) -> None:
    instances = keywords.instances()
    suite = keywords.suite()
    assert len(instances) == 30 and {i.task for i in instances} == set(suite.budgets)
    for instance in instances:
        source = keywords.write_program(instance.prompt)
        assert check(source) == []
        for concept in instance.targets:
            assert repr(keywords.forms(*concept)) in source
            assert len(keywords.forms(*concept)) == len(set(keywords.forms(*concept))) >= 2
        text = "The " + " ".join(word for word, _ in instance.targets) + "."
        assert keywords.verify(instance, text)
        assert not keywords.verify(instance, text.replace(instance.targets[-1][0], "thing"))
        assert set(suite.prescribed(instance)) >= {word for word, _ in instance.targets}


def test_the_expert_program_obeys_the_ground_truth(keywords: Any) -> None:
    instance = keywords.instances()[12]
    result = run_program(keywords.write_program(instance.prompt), sandbox="none", n=4, seed=1)
    assert result.check is True and keywords.verify(instance, result.text)
