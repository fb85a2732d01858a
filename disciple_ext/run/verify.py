"""The user's own verifier of an answer, run in the host process."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import replace

from ..errors import UsageError
from ..records.result import Result
from ..records.task import Task, Verifier

__all__ = ["check_verifier", "verified", "verify"]

_SECONDS = 60.0


def check_verifier(verifier: Verifier) -> None:
    """Refuse a command that is not there, before anything is paid for.

    Raises:
        UsageError: there is no such command.
    """
    if callable(verifier):
        return
    if not verifier or shutil.which(verifier[0]) is None:
        raise UsageError(f"the verifier {list(verifier)!r} cannot be run: there is no such command")


def verified(result: Result, task: Task) -> Result:
    """The result with the verdict of the task's verifier, if there is one.

    Raises:
        UsageError: the verifier failed.
    """
    if task.verify is None or result.text is None:
        return result
    return replace(result, verified=verify(task.verify, result.text))


def verify(verifier: Verifier, text: str) -> bool:
    """Ask the user's verifier about a text.

    Args:
        verifier: a callable on the text, or a command that reads it on standard input and
            passes by exiting with 0.
        text: the answer.

    Raises:
        UsageError: the callable raised, or the command cannot be run or hangs.
    """
    if callable(verifier):
        try:
            return bool(verifier(text))
        except Exception as error:
            raise UsageError(
                f"the verifier raised {type(error).__name__}: {error} on the answer {text!r}"
            ) from error
    command = list(verifier)
    try:
        done = subprocess.run(
            # Its output is dropped: our own standard output is for the answer.
            command,
            input=text.encode(),
            stdout=subprocess.DEVNULL,
            timeout=_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UsageError(f"the verifier {command!r} cannot be run: {error}") from error
    return done.returncode == 0
