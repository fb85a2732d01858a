"""The plugin as installed: a wheel, an environment with disciple-ext, the sandbox, and gone."""

from __future__ import annotations

from pathlib import Path

import pytest

from disciple_ext.testing.installed import check_installed


@pytest.mark.slow
def test_installed_used_in_the_sandbox_and_gone(tmp_path: Path) -> None:
    samplers = {"beam-smc": "search", "beam-smc-weighted": "weighted"}
    check_installed(Path(__file__).parents[1], samplers, tmp_path)
