"""A sampler whose module, imported before the fork, lifts what merely hinders an attack.

In a zygote it imports all that attacks import, and the worker's refusal of further imports gives
way to Python's own importers. What then still stops an attack is the operating system.
"""

from __future__ import annotations

import importlib.machinery
import sys

from disciple_ext.run import worker
from disciple_ext.samplers.importance import ImportanceSampler

MODULES = """_imp _io _posixshmem _posixsubprocess _socket _thread asyncio atexit base64 codecs
    concurrent.futures.thread ctypes ctypes.util decimal fcntl fileinput gc glob http.client
    importlib.machinery importlib.util inspect io linecache mmap multiprocessing
    multiprocessing.context multiprocessing.popen_fork numpy numpy.ctypeslib os pathlib pickle
    platform posix pty resource runpy select selectors shutil signal socket stat struct subprocess
    sysconfig tempfile threading time tokenize traceback urllib.error urllib.request uuid
    warnings""".split()


class Importers:
    """Python's own importers, where the worker puts its refusal."""

    @staticmethod
    def find_spec(name, path=None, target=None):
        for finder in (
            importlib.machinery.BuiltinImporter,
            importlib.machinery.FrozenImporter,
            importlib.machinery.PathFinder,
        ):
            spec = finder.find_spec(name, path, target)
            if spec is not None:
                return spec
        return None


class Preloaded(ImportanceSampler):
    """Importance sampling, in a worker that is easier to attack."""


def lift():
    """Import everything, and let programs import more."""
    for name in MODULES:
        importlib.import_module(name)
    worker._NoImports = Importers


if isinstance(sys.modules.get("torch"), worker._StandIn):  # in a zygote, not in the host
    lift()
