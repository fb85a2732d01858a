"""The plugin as installed: a wheel, found and used in the sandbox, and gone once uninstalled."""

from __future__ import annotations

from pathlib import Path

import pytest

from disciple_ext.testing.installed import check_installed


@pytest.mark.slow
def test_installed_used_in_the_sandbox_and_gone(tmp_path: Path) -> None:
    check_installed(Path(__file__).parents[1], {"mcts": "search"}, tmp_path)
