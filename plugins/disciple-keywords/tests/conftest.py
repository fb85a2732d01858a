from __future__ import annotations

import sys
from importlib.util import find_spec
from pathlib import Path

# From the source tree where the plugin is not installed; the installed one is tested on its own.
if find_spec("disciple_keywords") is None:
    sys.path.insert(0, str(Path(__file__).parents[1]))
