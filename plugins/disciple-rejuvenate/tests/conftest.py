"""The tests run against the installed plugin or, where it is not installed, the one beside them."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))  # for what the tests share
if importlib.util.find_spec("disciple_rejuvenate") is None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
