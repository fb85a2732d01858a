"""The command ``disciple``: one module per group of commands, each of which calls the library.

The answer goes to standard output and everything else to standard error. Exit codes are part of
the contract: see :data:`EXIT_CODES`.
"""

from __future__ import annotations

from .main import EXIT_CODES, app, main, run

__all__ = ["EXIT_CODES", "app", "main", "run"]
