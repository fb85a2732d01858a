"""Attacks around checks of a program's source and around import hooks, to a file or a socket."""

from __future__ import annotations

from .base import in_group

_attack = in_group("imports")

ATTACKS = [
    _attack("dunder-import", 'os = __import__("o" + "s")\nreturn os.listdir(env["scratch"])[0]'),
    _attack(
        "import-module",
        """
        import importlib
        return importlib.import_module("o" + "s").listdir(env["scratch"])[0]
        """,
    ),
    _attack("posix-module", 'import posix\nreturn posix.listdir(env["scratch"])[0]'),
    _attack("sys-modules", 'import sys\nreturn sys.modules["os"].listdir(env["scratch"])[0]'),
    _attack(
        "sys-through-module",
        """
        import json
        return json.codecs.sys.modules["posix"].listdir(env["scratch"])[0]
        """,
    ),
    _attack(
        "frozen-os",
        """
        import _imp
        names = {"__name__": "os", "__builtins__": __builtins__}
        exec(_imp.get_frozen_object("os"), names)
        return names["listdir"](env["scratch"])[0]
        """,
    ),
    _attack(
        "builtin-importer",
        """
        for cls in object.__subclasses__():
            if cls.__name__ == "BuiltinImporter":
                posix = cls.create_module(cls.find_spec("posix"))
                cls.exec_module(posix)
                return posix.listdir(env["scratch"])[0]
        """,
    ),
    _attack(
        "subclasses-wrap-close",
        """
        for cls in ().__class__.__base__.__subclasses__():
            if cls.__name__ == "_wrap_close":
                return cls.__init__.__globals__["listdir"](env["scratch"])[0]
        """,
    ),
    _attack(
        "subclasses-popen",
        """
        for cls in ().__class__.__base__.__subclasses__():
            if cls.__name__ == "Popen" and cls.__module__ == "subprocess":
                return cls(["/bin/echo", "ran"], stdout=-1).communicate()[0].decode()
        """,
    ),
    _attack(
        "subclasses-fileio",
        """
        raw = next(c for c in object.__subclasses__() if c.__name__ == "_IOBase")
        raw = next(c for c in raw.__subclasses__() if c.__name__ == "_RawIOBase")
        file_io = next(c for c in raw.__subclasses__() if c.__name__ == "FileIO")
        return file_io(env["secret"]).read().decode()
        """,
    ),
    _attack(
        "subclasses-file-loader",
        """
        for cls in object.__subclasses__():
            if cls.__name__ == "FileLoader":
                return cls("x", env["secret"]).get_data(env["secret"]).decode()
        """,
    ),
    _attack("io-fileio", 'import _io\nreturn _io.FileIO(env["secret"]).read().decode()'),
    _attack("io-open-code", 'import io\nreturn io.open_code(env["secret"]).read().decode()'),
    _attack("codecs-open", 'import codecs\nreturn codecs.open(env["secret"]).read()'),
    _attack("tokenize-open", 'import tokenize\nreturn tokenize.open(env["secret"]).read()'),
    _attack("linecache", 'import linecache\nreturn linecache.getline(env["secret"], 1)'),
    _attack(
        "fileinput",
        'import fileinput\nreturn next(fileinput.input([env["secret"]]))',
        needs=("imports",),
    ),
    _attack(
        "license-printer",
        """
        import _sitebuiltins, os
        folder, name = os.path.split(env["secret"])
        printer = _sitebuiltins._Printer("x", "", [name], [folder])
        printer._Printer__setup()
        return printer._Printer__lines[0]
        """,
    ),
    _attack(
        "function-globals",
        """
        import random
        return random.Random.choices.__globals__["_os"].listdir(env["scratch"])[0]
        """,
    ),
    _attack(
        "builtins-of-a-function",
        """
        import json
        return json.loads.__builtins__["open"](env["secret"]).read()
        """,
    ),
    _attack(
        "frame-globals",
        """
        import sys
        frame = sys._getframe()
        while frame.f_back is not None:
            frame = frame.f_back
        return frame.f_builtins["open"](env["secret"]).read()
        """,
    ),
    _attack(
        "generator-frame",
        """
        def walk():
            frame = generator.gi_frame
            while frame is not None:
                frame = frame.f_back
                if frame is not None and "open" in frame.f_builtins:
                    yield frame.f_builtins["open"](env["secret"]).read()

        generator = walk()
        return next(generator)
        """,
    ),
    _attack(
        "traceback-frame",
        """
        try:
            raise ValueError
        except ValueError as error:
            frame = error.__traceback__.tb_frame.f_back
            return frame.f_builtins["open"](env["secret"]).read()
        """,
    ),
    _attack(
        "package-globals",
        """
        import disciple_ext.model.stops as stops
        return stops.sys.modules["os"].listdir(env["scratch"])[0]
        """,
    ),
    _attack("random-os", 'import random\nreturn random._os.listdir(env["scratch"])[0]'),
    _attack(
        "ctypes-through-numpy",
        """
        import numpy
        libc = numpy.ctypeslib.ctypes.CDLL(None)
        fd = libc.open(env["secret"].encode(), 0)
        line = numpy.ctypeslib.ctypes.create_string_buffer(100)
        return line.value.decode() if libc.read(fd, line, 100) > 0 else None
        """,
        needs=("imports",),
    ),
    _attack(
        "ctypes-open",
        """
        c = find_ctypes()
        libc = c.CDLL(None)
        fd = libc.open(env["secret"].encode(), 0)
        line = c.create_string_buffer(100)
        return line.value.decode() if libc.read(fd, line, 100) > 0 else None
        """,
    ),
    _attack(
        "ctypes-python-api",
        """
        c = find_ctypes()
        run = c.pythonapi.PyRun_SimpleString
        code = f"open({env['marker']!r}, 'w').write('x')"
        return "ran" if run(code.encode()) == 0 else None
        """,
        witness='os.path.exists(env["marker"])',
    ),
    _attack(
        "meta-path-restored",
        """
        import sys
        from importlib.machinery import BuiltinImporter, FrozenImporter, PathFinder
        name = next(n for n in ("colorsys", "sched", "wave", "rlcompleter") if n not in sys.modules)
        hooks = list(sys.meta_path)
        sys.meta_path[:] = [BuiltinImporter, FrozenImporter, PathFinder]
        sys.path_importer_cache.clear()
        try:
            return __import__(name).__file__
        finally:
            sys.meta_path[:] = hooks
        """,
        needs=("imports",),
    ),
    _attack(
        "written-module",
        """
        import os, sys
        path = os.path.join(env["scratch"], "written_module.py")
        with open(path, "w") as file:
            file.write("GREETING = 'imported'")
        sys.path.insert(0, env["scratch"])
        sys.path_importer_cache.pop(env["scratch"], None)
        sys.modules.pop("written_module", None)
        try:
            import written_module
            return written_module.GREETING
        finally:
            sys.path.remove(env["scratch"])
            os.unlink(path)
        """,
    ),
    _attack(
        "runpy",
        """
        import os, runpy
        with open(env["marker"], "w") as file:
            file.write("GREETING = 'ran'")
        return runpy.run_path(env["marker"])["GREETING"]
        """,
        witness='os.path.exists(env["marker"])',
    ),
    _attack(
        "dlopen-library",
        """
        return find_ctypes().CDLL("libBrokenLocale.so.1")._name  # one that nothing has loaded
        """,
    ),
    _attack(
        "posixsubprocess",
        """
        import _posixsubprocess, os
        out, into = os.pipe()
        error, failed = os.pipe()
        pid = _posixsubprocess.fork_exec(
            [b"echo", b"ran"], [b"/bin/echo"], True, (failed,), None, None, -1, -1, -1, into, -1,
            -1, error, failed, True, False, -1, None, None, None, -1, None, False,
        )
        os.waitpid(pid, 0)
        os.close(into)
        return os.read(out, 10).decode()
        """,
    ),
    _attack(
        "low-level-socket",
        """
        import _socket
        s = _socket.socket(_socket.AF_INET, _socket.SOCK_STREAM)
        s.connect(("127.0.0.1", env["tcp_port"]))
        return str(s.getpeername())
        """,
        needs=("inet",),
    ),
    _attack(
        "loop-selector",
        """
        import asyncio
        loop = asyncio.new_event_loop()
        try:
            return f"descriptor {loop._selector.fileno()}, {loop._csock.send(b'x')} byte sent"
        finally:
            loop.close()
        """,
    ),
    _attack(
        "socket-of-a-loop",
        """
        import gc, socket
        gc.unfreeze()  # what was there before the fork, too
        for thing in gc.get_objects():
            if isinstance(thing, socket.socket) and thing.fileno() >= 0:
                return repr(thing.dup())
        """,
        needs=("loop",),
    ),
    _attack(
        "files-found-by-gc",
        """
        import gc, io
        gc.unfreeze()  # what was there before the fork, too
        for thing in gc.get_objects():
            if isinstance(thing, io.FileIO) and not thing.closed and thing.fileno() > 2:
                return type(thing)(env["secret"]).read().decode()
        return next(
            type(t)(env["secret"]).read().decode()
            for t in gc.get_objects()
            if isinstance(t, io.FileIO)
        )
        """,
    ),
    _attack(
        "audit-hook",
        """
        import sys
        seen = []

        def hook(event, args):
            if event == "attack" and not seen:
                seen.append(open(env["secret"]).read())

        sys.addaudithook(hook)
        sys.audit("attack")
        return seen[0]
        """,
        needs=("forked",),
    ),
    _attack(
        "settrace",
        """
        import sys
        seen = []

        def trace(frame, event, arg):
            sys.settrace(None)
            seen.append(frame.f_builtins["open"](env["secret"]).read())

        old = sys.gettrace()
        sys.settrace(trace)
        try:
            (lambda: None)()
        finally:
            sys.settrace(old)
        return seen[0]
        """,
    ),
    _attack(
        "exit-handler",
        """
        import atexit

        def late():
            with open(env["marker"], "w") as file:
                file.write("late")

        atexit.register(late)
        atexit._run_exitfuncs()
        return "ran" if open(env["marker"]).read() == "late" else None
        """,
        witness='os.path.exists(env["marker"])',
        needs=("forked",),
    ),
    _attack(
        "finaliser",
        """
        seen = []

        class Late:
            def __del__(self, open=open):
                seen.append(open(env["secret"]).read())

        Late()
        return seen[0]
        """,
    ),
    _attack(
        "bytecode",
        """
        def f(path):
            return abs(path)

        code = f.__code__
        names = tuple("open" if name == "abs" else name for name in code.co_names)
        f.__code__ = code.replace(co_names=names)
        return f(env["secret"]).read()
        """,
    ),
    _attack(
        "format-attributes",
        """
        import random
        shown = "{0.Random.seed.__globals__[_os].environ}".format(random)
        return shown[:40] if "DISCIPLE_TEST_SECRET" in shown else None
        """,
    ),
    _attack(
        "pickle",
        """
        import pickle
        text = "cbuiltins\\nopen\\n(V" + env["secret"] + "\\ntR."
        return pickle.loads(text.encode()).read()
        """,
    ),
    _attack("eval-open", 'return eval("op" + "en")(env["secret"]).read()'),
    _attack(
        "thread-opens",
        """
        import concurrent.futures.thread as thread
        with thread.ThreadPoolExecutor(1) as pool:
            return pool.submit(lambda: open(env["secret"]).read()).result(1)
        """,
        needs=("threads", "imports"),
    ),
    _attack(
        "warnings-source",
        """
        import warnings
        shown = warnings.formatwarning("x", UserWarning, env["secret"], 1)
        return shown if env["secret_text"] in shown else None
        """,
    ),
    _attack(
        "traceback-source",
        """
        import traceback
        return traceback.FrameSummary(env["secret"], 1, "f").line
        """,
    ),
    _attack(
        "source-loader",
        """
        import importlib.machinery
        loader = importlib.machinery.SourceFileLoader("x", env["secret"])
        return loader.get_data(env["secret"]).decode()
        """,
    ),
]
