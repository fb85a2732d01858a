"""Attacks on other runs and on the host's secrets, by what lies in one's own process.

An attack with ``follows`` runs after its plant. The plant has a run of its own, with another
token; it leaves things behind and gives no evidence.
"""

from __future__ import annotations

from .base import in_group

_attack = in_group("isolation")
_plant = in_group("isolation")

_IN_PROCESS = ("in-process",)

PLANTS = [
    _plant("plant-file", 'with open(env["marker"], "w") as file:\n    file.write(env["token"])'),
    _plant("plant-builtin", 'import builtins\nbuiltins.planted = env["token"]'),
    _plant(
        "plant-patched-builtin",
        """
        import builtins
        true_len = builtins.len

        def length(thing):
            return true_len(thing)

        length.planted = env["token"]
        length.true = true_len
        builtins.len = length
        """,
    ),
    _plant(
        "plant-patched-json",
        """
        import json
        true_dumps = json.dumps

        def dumps(*args, **kwargs):
            return true_dumps(*args, **kwargs)

        dumps.planted = env["token"]
        dumps.true = true_dumps
        json.dumps = dumps
        """,
    ),
    _plant(
        "plant-patched-package",
        """
        import disciple_ext.model.base as base
        base.BaseModel.planted = env["token"]
        """,
    ),
    _plant(
        "plant-module",
        """
        import sys
        module = type(sys)("planted")
        module.token = env["token"]
        sys.modules["planted"] = module
        """,
    ),
    _plant("plant-environment", 'import os\nos.environ["PLANTED"] = env["token"]'),
    _plant(
        "plant-random-state",
        """
        import random
        random.seed(12345)
        """,
    ),
    _plant(
        "plant-subclass",
        """
        import disciple_ext.model.base as base
        base.PLANTED = type("InferenceModel", (base.BaseModel,), {"token": env["token"]})
        """,
    ),
    _plant("plant-regex", 'import re\nre.compile("(?:" + env["token"] + ")")'),
    _plant(
        "plant-import-hook",
        """
        import sys

        class Hook:
            @staticmethod
            def find_spec(name, path=None, target=None):
                return None

        Hook.planted = env["token"]
        sys.meta_path.append(Hook)
        """,
    ),
    _plant(
        "plant-trace",
        """
        import gc

        def watch(phase, info):
            pass

        watch.planted = env["token"]
        gc.callbacks.append(watch)
        """,
    ),
    _plant(
        "plant-context",
        """
        import decimal
        decimal.getcontext().prec = 77
        """,
    ),
    _plant(
        "plant-objects",
        """
        import numpy
        numpy.planted = [{"token": env["token"], "kept": [i]} for i in range(100)]
        """,
    ),
    _plant(
        "plant-freed-buffers",
        """
        import numpy
        text = (env["token"] + " ") * 2000
        for size in (4096, 8192, 16384, 65536):
            arrays = []
            for _ in range(8):
                array = numpy.empty(size, "u1")
                array[:] = list((text.encode() * 4)[:size])
                arrays.append(array)
            # Every second one is kept, so that the freed ones do not melt into the top.
            numpy.kept = getattr(numpy, "kept", []) + arrays[::2]
        for array in numpy.kept:
            array[:] = 0
        """,
    ),
]

ATTACKS = [
    # The host's secrets -------------------------------------------------------------------
    _attack("environ", 'import os\nreturn os.environ.get("DISCIPLE_TEST_SECRET")'),
    _attack(
        "environ-posix",
        """
        import posix
        value = posix.environ.get(b"DISCIPLE_TEST_SECRET")
        return value.decode() if value else None
        """,
        needs=("exec-environ",),
    ),
    _attack(
        "environ-libc",
        """
        c = find_ctypes()
        getenv = c.CDLL(None).getenv
        getenv.restype = c.c_char_p
        value = getenv(b"DISCIPLE_TEST_SECRET")
        return value.decode() if value else None
        """,
    ),
    _attack(
        "environ-proc",
        """
        dumpable()
        with open("/proc/self/environ", "rb") as file:
            for setting in file.read().split(b"\\0"):
                if setting.startswith(b"DISCIPLE_TEST_SECRET="):
                    return setting.decode()
        """,
        needs=("proc", "exec-environ"),
    ),
    _attack(
        "environ-stack",
        """
        c = find_ctypes()
        at = c.c_void_p.in_dll(c.CDLL(None), "__libc_stack_end").value
        words = c.cast(at, c.POINTER(c.c_size_t))
        i = 1 + words[0] + 1  # argc, argv, NULL: what clearing the environment does not clear
        while words[i]:
            setting = c.string_at(words[i])
            if setting.startswith(b"DISCIPLE_TEST_SECRET="):
                return setting.decode()
            i += 1
        """,
        needs=("x86_64", "exec-environ"),
    ),
    _attack(
        "environ-parent",
        """
        import os
        with open(f"/proc/{os.getppid()}/environ", "rb") as file:
            for setting in file.read().split(b"\\0"):
                if setting.startswith(b"DISCIPLE_TEST_SECRET="):
                    return setting.decode()
        """,
        needs=("proc", "exec-environ", "same-uid-parent"),
    ),
    # What an earlier run left -------------------------------------------------------------
    _attack(
        "find-file",
        """
        import os
        for name in sorted(os.listdir(env["scratch"])):
            try:
                with open(os.path.join(env["scratch"], name), "rb") as file:
                    found = other_token(file.read(1000), env)
            except OSError:
                continue
            if found:
                return found
        """,
        follows="plant-file",
    ),
    _attack(
        "find-builtin",
        'import builtins\nreturn vars(builtins).pop("planted", None)',
        needs=_IN_PROCESS,
        follows="plant-builtin",
    ),
    _attack(
        "find-patched-builtin",
        """
        import builtins
        patched = builtins.len
        if hasattr(patched, "planted"):
            builtins.len = patched.true
            return patched.planted
        """,
        needs=_IN_PROCESS,
        follows="plant-patched-builtin",
    ),
    _attack(
        "find-patched-json",
        """
        import json
        patched = json.dumps
        if hasattr(patched, "planted"):
            json.dumps = patched.true
            return patched.planted
        """,
        needs=_IN_PROCESS,
        follows="plant-patched-json",
    ),
    _attack(
        "find-patched-package",
        """
        import disciple_ext.model.base as base
        if hasattr(base.BaseModel, "planted"):
            found = base.BaseModel.planted
            del base.BaseModel.planted
            return found
        """,
        needs=_IN_PROCESS,
        follows="plant-patched-package",
    ),
    _attack(
        "find-module",
        'import sys\nmodule = sys.modules.pop("planted", None)\nreturn module and module.token',
        needs=_IN_PROCESS,
        follows="plant-module",
    ),
    _attack(
        "find-environment",
        'import os\nreturn os.environ.pop("PLANTED", None)',
        needs=_IN_PROCESS,
        follows="plant-environment",
    ),
    _attack(
        "find-random-state",
        """
        import random
        expected = random.Random(12345).random()
        return "went on where the other stopped" if random.random() == expected else None
        """,
        needs=_IN_PROCESS,
        follows="plant-random-state",
    ),
    _attack(
        "find-subclass",
        """
        import disciple_ext.model.base as base
        for cls in base.BaseModel.__subclasses__():
            if "token" in vars(cls) and cls.token != env["token"]:
                vars(base).pop("PLANTED", None)
                return cls.token
        """,
        needs=_IN_PROCESS,
        follows="plant-subclass",
    ),
    _attack(
        "find-regex",
        """
        import re
        for key in list(re._cache):
            found = other_token(str(key[1]).encode(), env)
            if found:
                return found
        """,
        needs=_IN_PROCESS,
        follows="plant-regex",
    ),
    _attack(
        "find-import-hook",
        """
        import sys
        for hook in list(sys.meta_path):
            if hasattr(hook, "planted"):
                sys.meta_path.remove(hook)
                return hook.planted
        """,
        needs=_IN_PROCESS,
        follows="plant-import-hook",
    ),
    _attack(
        "find-gc-callback",
        """
        import gc
        for callback in list(gc.callbacks):
            if hasattr(callback, "planted"):
                gc.callbacks.remove(callback)
                return callback.planted
        """,
        needs=_IN_PROCESS,
        follows="plant-trace",
    ),
    _attack(
        "find-decimal-context",
        """
        import decimal
        if decimal.getcontext().prec == 77:
            decimal.getcontext().prec = 28
            return "the other's precision"
        """,
        needs=(*_IN_PROCESS, "imports"),
        follows="plant-context",
    ),
    _attack(
        "find-objects",
        """
        import gc
        gc.unfreeze()  # what was there before the fork, too
        for thing in gc.get_objects():
            if type(thing) is dict and type(thing.get("token")) is str:
                found = other_token(thing["token"].encode(), env)
                if found:
                    return found
        """,
        needs=_IN_PROCESS,
        follows="plant-objects",
    ),
    _attack(
        "find-in-referents",
        """
        import gc, time
        deadline = time.monotonic() + 1.5
        gc.unfreeze()  # what was there before the fork, too
        for thing in gc.get_objects():
            for inner in gc.get_referents(thing):
                if type(inner) is str and env["other_token_hint"] in inner:
                    found = other_token(inner.encode(errors="replace"), env)
                    if found:
                        return found
            if time.monotonic() > deadline:
                return None
        """,
        needs=_IN_PROCESS,
        follows="plant-objects",
    ),
    _attack(
        "find-in-pages",
        """
        import gc, time
        string_at = find_ctypes().string_at
        deadline = time.monotonic() + 1.5
        hint = env["other_token_hint"].encode()
        pages = set()
        gc.unfreeze()  # what was there before the fork, too
        for thing in gc.get_objects():
            pages.add(id(thing) >> 12)
            pages.update(id(inner) >> 12 for inner in gc.get_referents(thing))
            if time.monotonic() > deadline - 0.8:
                break
        for page in sorted(pages, reverse=True):
            content = string_at(page << 12, 4096)  # a live object lies in it: it is mapped
            found = other_token(content, env) if hint in content else None
            if found or time.monotonic() > deadline:
                return found
        """,
        needs=_IN_PROCESS,
        follows="plant-objects",
    ),
    _attack(
        "find-in-proc-mem",
        """
        import time
        dumpable()
        deadline = time.monotonic() + 1.5
        with open("/proc/self/maps") as file:
            maps = [line.split() for line in file]
        with open("/proc/self/mem", "rb", buffering=0) as memory:
            for fields in maps:
                if not fields[1].startswith("rw") or "/" in fields[-1]:
                    continue
                at, end = (int(x, 16) for x in fields[0].split("-"))
                while at < end and time.monotonic() < deadline:
                    memory.seek(at)
                    try:
                        found = other_token(memory.read(min(end - at, 2**20)), env)
                    except OSError:
                        break
                    if found:
                        return found
                    at += 2**20
        """,
        needs=(*_IN_PROCESS, "proc"),
        follows="plant-objects",
    ),
    _attack(
        "find-in-freed-memory",
        """
        import numpy
        arrays = []
        for size in (4096, 8192, 16384, 65536):
            for _ in range(16):
                array = numpy.empty(size, "u1")  # what malloc last had there
                found = other_token(array.tobytes(), env)
                if found:
                    return found
                arrays.append(array)
        """,
        needs=_IN_PROCESS,
        follows="plant-freed-buffers",
    ),
]
