"""Makes the package ``attacks`` importable, here and in the sandbox's zygotes."""

from __future__ import annotations

import sys
from pathlib import Path

HERE = str(Path(__file__).parent)
if HERE not in sys.path:
    sys.path.append(HERE)  # zygotes get the host's sys.path
