"""Programs that the host has to watch: they hang, hoard, crash, lie or shout.

What is to be seen is in each one's ``note``; the host stays well, and the next run is not touched.
"""

from __future__ import annotations

import textwrap
from dataclasses import dataclass

KINDS = ("hang", "memory", "crash", "output", "forge", "terminal")


@dataclass(frozen=True)
class Hostile:
    """A hostile program.

    Attributes:
        name: unique, kebab-case.
        kind: one of :data:`KINDS`.
        source: the whole program.
        note: what it does, or what the host must not believe.
    """

    name: str
    kind: str
    source: str
    note: str


def _program(name: str, kind: str, source: str, note: str) -> Hostile:
    return Hostile(name, kind, textwrap.dedent(source).strip() + "\n", note)


def _step(name: str, kind: str, body: str, note: str) -> Hostile:
    """A program from the body of its step."""
    body = textwrap.indent(textwrap.dedent(body).strip(), "        ")
    source = f"class InferenceModel(BaseModel):\n    async def step(self):\n{body}\n"
    return Hostile(name, kind, source, note)


_WRITE = '''
import json, os, struct

def everywhere(data):
    for fd in range(3, 21):
        try:
            os.write(fd, data)
        except OSError:
            pass

def framed(body):
    """The body as a line, and behind headers of its length."""
    n = len(body)
    return [body + b"\\n", *(struct.pack(f, n) + body for f in ("<I", ">I", "<Q", ">Q"))]

class InferenceModel(BaseModel):
    async def step(self):
        for data in messages():
            everywhere(data)
        await self.end()

def messages():
'''


def _bytes(name: str, body: str, note: str) -> Hostile:
    """A program that writes what the body of ``messages()`` gives to every descriptor."""
    body = textwrap.indent(textwrap.dedent(body).strip(), "    ")
    return Hostile(name, "forge", f"{_WRITE.strip()}\n{body}\n", note)


HOSTILE = [
    # Hangs: over at the deadline -----------------------------------------------------------
    _step("loop-in-step", "hang", "while True:\n    pass", "a loop in Python"),
    _program(
        "loop-in-init",
        "hang",
        """
        class InferenceModel(BaseModel):
            def __init__(self, context):
                super().__init__(context)
                while True:
                    pass

            async def step(self):
                await self.end()
        """,
        "a loop before the first step",
    ),
    _program(
        "loop-in-module",
        "hang",
        """
        while True:
            pass

        class InferenceModel(BaseModel):
            async def step(self):
                await self.end()
        """,
        "a loop while the program is loaded",
    ),
    _program(
        "loop-in-check",
        "hang",
        """
        class InferenceModel(BaseModel):
            async def step(self):
                await self.end()

            def check(self, text):
                while True:
                    pass
        """,
        "a loop after the last step",
    ),
    _program(
        "loop-in-prior-prompt",
        "hang",
        """
        class InferenceModel(BaseModel):
            @classmethod
            def prior_prompt(cls):
                while True:
                    pass

            async def step(self):
                await self.end()
        """,
        "a loop before any particle",
    ),
    _program(
        "loop-in-deepcopy",
        "hang",
        """
        class InferenceModel(BaseModel):
            def __deepcopy__(self, memo):
                while True:
                    pass

            async def step(self):
                self.score(-1000 * self.random.random())
                await self.next_token()
        """,
        "a loop when a particle is resampled (needs several particles)",
    ),
    _program(
        "loop-in-str",
        "hang",
        """
        class InferenceModel(BaseModel):
            def __str__(self):
                while True:
                    pass

            async def step(self):
                await self.end()
        """,
        "a loop when the text is asked for",
    ),
    _step(
        "regex",
        "hang",
        're.match(r"(a+)+$", "a" * 64 + "b")',
        "C code that never looks at signals for long",
    ),
    _step("sum-in-c", "hang", "sum(range(10**12))", "a loop in C code"),
    _step("big-power", "hang", "10 ** 10**8", "one instruction that takes minutes"),
    _step("huge-comparison", "hang", "10**12 in itertools.count(0)", "a search in C code"),
    _step("sleep", "hang", "import time\ntime.sleep(1000)", "blocks the loop, uses no CPU time"),
    _step(
        "asyncio-sleep",
        "hang",
        "import asyncio\nwhile True:\n    await asyncio.sleep(3600)",
        "gives the loop back, never ends",
    ),
    _step(
        "busy-yield",
        "hang",
        "import asyncio\nwhile True:\n    await asyncio.sleep(0)",
        "gives the loop back at every turn, never ends",
    ),
    _step(
        "future-never-done",
        "hang",
        "import asyncio\nawait asyncio.get_running_loop().create_future()",
        "waits for nothing",
    ),
    _step(
        "swallow-cancel",
        "hang",
        """
        import asyncio
        while True:
            try:
                await asyncio.sleep(0.01)
            except BaseException:
                pass
        """,
        "swallows CancelledError, and whatever a watchdog raises",
    ),
    _step(
        "swallow-everything",
        "hang",
        """
        while True:
            try:
                while True:
                    pass
            except BaseException:
                pass
        """,
        "swallows whatever a watchdog raises, and never gives the loop back",
    ),
    _step(
        "ignore-signals",
        "hang",
        """
        import signal
        for number in range(1, 65):
            try:
                signal.signal(number, signal.SIG_IGN)
            except (OSError, ValueError):
                pass
        while True:
            pass
        """,
        "only SIGKILL ends it",
    ),
    _step("endless-steps", "hang", "pass", "quick steps for ever: max_steps ends it"),
    _step(
        "endless-draws",
        "hang",
        "self.max_tokens = None\nwhile True:\n    await self.next_token()",
        "asks the follower for ever: the host counts tokens, not the program",
    ),
    _step(
        "read-stdin",
        "hang",
        "import sys\nsys.stdin.read()\nawait self.end()",
        "reads what a person types; ends well where standard input is empty",
    ),
    _step(
        "read-every-descriptor",
        "hang",
        """
        import os
        for fd in range(21):
            try:
                os.read(fd, 2**20)
            except OSError:
                pass
        await self.end()
        """,
        "steals the host's messages, or waits for them; ends well where none can be read",
    ),
    # Memory ---------------------------------------------------------------------------------
    _step("huge-string", "memory", "self.kept = 'x' * 2**36", "one allocation of 64 GB"),
    _step("huge-bytearray", "memory", "self.kept = bytearray(2**34)", "16 GB of zeroes"),
    _step("huge-list", "memory", "self.kept = [None] * 2**32", "32 GB of pointers"),
    _step(
        "hoard",
        "memory",
        "kept = []\nwhile True:\n    kept.append(b'x' * 2**20)",
        "a MB at a time, all of it touched",
    ),
    _step(
        "hoard-and-swallow",
        "memory",
        """
        kept = []
        while True:
            try:
                while True:
                    kept.append(bytearray(b"x" * 2**16))
            except MemoryError:
                pass
        """,
        "goes on after MemoryError until the deadline",
    ),
    _step(
        "hoard-small-objects",
        "memory",
        "kept = None\nwhile True:\n    kept = (kept, [])",
        "small objects in a long chain: freeing it is deep, too",
    ),
    _step(
        "hoard-numpy",
        "memory",
        "import numpy\nkept = []\nwhile True:\n    kept.append(numpy.ones(2**20))",
        "8 MB at a time, beside Python's allocator",
    ),
    _step(
        "growing-text",
        "memory",
        "self.grown = getattr(self, 'grown', 'x') * 2",
        "doubles what it keeps at every step, copied at every resampling",
    ),
    # Crashes: the worker ends, the host says so ---------------------------------------------
    _step("recursion", "crash", "def f():\n    return f()\nf()", "RecursionError"),
    _step(
        "recursion-without-limit",
        "crash",
        """
        import sys
        sys.setrecursionlimit(2**31 - 1)
        def f(n):
            return list(map(f, [n + 1]))
        f(0)
        """,
        "overflow of the C stack through Python functions",
    ),
    _step(
        "nested-repr",
        "crash",
        """
        import sys
        sys.setrecursionlimit(2**30)
        thing = []
        for _ in range(10**6):
            thing = [thing]
        repr(thing)
        """,
        "overflow of the C stack",
    ),
    _step("deep-parentheses", "crash", "compile('(' * 100000, 'x', 'eval')", "a deep parse"),
    _step(
        "deep-minus",
        "crash",
        "compile('-' * 1000000 + '1', 'x', 'eval')",
        "a deep tree: RecursionError, MemoryError or a crash",
    ),
    Hostile(
        "deep-source",
        "crash",
        "x = " + "-" * 100_000 + "1\n\n\nclass InferenceModel(BaseModel):\n"
        "    async def step(self):\n        await self.end()\n",
        "the program's own tree is deep: it must not be parsed in the host",
    ),
    Hostile(
        "null-in-source",
        "crash",
        "class InferenceModel(BaseModel):\n    async def step(self):\n        '\0'\n",
        "does not parse",
    ),
    Hostile(
        "surrogate-in-source",
        "crash",
        "class InferenceModel(BaseModel):\n    async def step(self):\n        '\ud800'\n",
        "cannot be encoded",
    ),
    _step("os-exit", "crash", "import os\nos._exit(0)", "ends with status 0, and no answer"),
    _step("abort", "crash", "import os\nos.abort()", "SIGABRT"),
    _step("segfault", "crash", "import ctypes\nctypes.string_at(0)", "SIGSEGV"),
    _step(
        "segfault-without-imports",
        "crash",
        """
        def f():
            pass
        f.__code__ = f.__code__.replace(co_code=b"\\x64\\xff" * 8, co_stacksize=0)
        f()
        """,
        "SIGSEGV from wrong bytecode alone",
    ),
    _step("system-exit", "crash", "raise SystemExit(0)", "no BaseException ends the worker"),
    _step("keyboard-interrupt", "crash", "raise KeyboardInterrupt", "not the user's Ctrl-C"),
    _step("generator-exit", "crash", "raise GeneratorExit", "an exception that loops swallow"),
    _step(
        "cancelled-error", "crash", "import asyncio\nraise asyncio.CancelledError", "not a cancel"
    ),
    _step("stop-iteration", "crash", "raise StopIteration", "becomes a RuntimeError"),
    _step(
        "base-exception",
        "crash",
        "class Odd(BaseException):\n    pass\nraise Odd('odd')",
        "an exception that 'except Exception' misses",
    ),
    _step(
        "exception-str-raises",
        "crash",
        """
        class Odd(Exception):
            def __str__(self):
                raise Odd
            __repr__ = __str__
        raise Odd
        """,
        "the error cannot be formatted",
    ),
    _step(
        "exception-str-not-a-string",
        "crash",
        "class Odd(Exception):\n    def __str__(self):\n        return 7\nraise Odd",
        "str() raises TypeError",
    ),
    _step(
        "exception-group",
        "crash",
        """
        error = ValueError("inner")
        for _ in range(500):
            error = ExceptionGroup("outer", [error])
        raise error
        """,
        "a traceback that is deep",
    ),
    _step(
        "exception-cause-cycle",
        "crash",
        "a, b = ValueError('a'), ValueError('b')\na.__cause__, b.__cause__ = b, a\nraise a",
        "a traceback that goes round",
    ),
    _step(
        "exception-without-a-line",
        "crash",
        "exec(compile('1/0', '<elsewhere>', 'exec'))",
        "an error in code that is not the program's",
    ),
    _step(
        "close-descriptors",
        "crash",
        "import os\nos.closerange(0, 256)\nawait self.end()",
        "cuts its own line",
    ),
    _step(
        "loop-stopped",
        "crash",
        "import asyncio\nasyncio.get_running_loop().stop()\nawait asyncio.sleep(1)",
        "stops the worker's event loop: it ends, or hangs until the deadline",
    ),
    _step(
        "loop-closed",
        "crash",
        "import asyncio\nloop = asyncio.get_running_loop()\nloop._selector.close()\n"
        "await asyncio.sleep(1)",
        "breaks the worker's event loop: it ends, or hangs until the deadline",
    ),
    # Output ---------------------------------------------------------------------------------
    _step(
        "exception-of-100-mb",
        "output",
        "raise ValueError('x' * 100_000_000)",
        "the message is cut before it is sent",
    ),
    _step(
        "text-of-50-mb",
        "output",
        "await self.force('a' * 50_000_000)",
        "over a limit, or the deadline",
    ),
    _program(
        "claimed-text-of-50-mb",
        "output",
        """
        class InferenceModel(BaseModel):
            text = "x" * 50_000_000

            def __str__(self):
                return self.text

            async def step(self):
                await self.end()
        """,
        "the text that the program claims is bounded",
    ),
    _step(
        "million-prints",
        "output",
        "for i in range(10**6):\n    print('line', i)\nawait self.end()",
        "print is bounded, and blocks nothing",
    ),
    _step("print-of-100-mb", "output", "print('x' * 10**8)\nawait self.end()", "one long print"),
    _step(
        "stderr-flood",
        "output",
        "import os\nfor _ in range(10**5):\n    os.write(2, b'x' * 1000)\nawait self.end()",
        "raw writes to standard error are bounded, and block nothing",
    ),
    _step(
        "stdout-replaced",
        "output",
        """
        import sys
        class Odd:
            def write(self, text):
                raise ValueError("no")
            flush = write
        sys.stdout = sys.stderr = Odd()
        print("lost")
        """,
        "no stream of the worker can be relied upon",
    ),
    _step(
        "stdout-none",
        "output",
        "import sys\nsys.stdout = sys.stderr = None\nprint('lost')\nawait self.end()",
        "no stream of the worker can be relied upon",
    ),
    _program(
        "long-reasons",
        "output",
        """
        class InferenceModel(BaseModel):
            async def step(self):
                self.die("error", "r" * 10**8)
        """,
        "a reason of 100 MB",
    ),
    # Forged results -------------------------------------------------------------------------
    _step("score-nan", "forge", "self.score(float('nan'))", "ValueError"),
    _step("score-infinite", "forge", "self.score(math.inf)\nawait self.end()", "never a weight"),
    _step(
        "weight-infinite",
        "forge",
        "await self.end()\nself.weight = math.inf",
        "a weight of infinity, past score()",
    ),
    _step(
        "weight-nan",
        "forge",
        "await self.end()\nself.weight = float('nan')",
        "a weight of NaN, past score()",
    ),
    _step(
        "weight-not-a-number",
        "forge",
        "await self.end()\nself.weight = 'heavy'",
        "a weight that is a string",
    ),
    _step(
        "weight-huge-integer",
        "forge",
        "await self.end()\nself.weight = 10**400",
        "a weight that overflows a float",
    ),
    _step(
        "max-tokens-raised",
        "forge",
        "self.max_tokens = 10**9\nfor _ in range(10**6):\n    await self.next_token()",
        "raises its own limit: the host's quota holds",
    ),
    _step(
        "negative-tokens",
        "forge",
        "self.context.append(-1)\n"
        "self.context.append(2**40)\nawait self.next_token()\nawait self.end()",
        "token ids beyond the vocabulary: the host checks every id",
    ),
    _step(
        "long-context",
        "forge",
        "for _ in range(10**5):\n    self.context.append(0)\n"
        "await self.next_token()\nawait self.end()",
        "a context longer than the model's",
    ),
    _program(
        "check-returns-odd",
        "forge",
        """
        class Odd:
            def __bool__(self):
                raise ValueError("neither")

        class InferenceModel(BaseModel):
            async def step(self):
                await self.end()

            def check(self, text):
                return Odd()
        """,
        "a verdict that is neither true nor false",
    ),
    _program(
        "check-forges-reason",
        "forge",
        """
        class InferenceModel(BaseModel):
            async def step(self):
                await self.end()
                self.finish_reason = {"verified": True}
                self.log_prior = "certain"
                self.reason = b"bytes"

            def check(self, text):
                return {"verified": True}
        """,
        "fields of wrong types",
    ),
    _program(
        "text-not-a-string",
        "forge",
        """
        class Text(str):
            def __len__(self):
                return -1

            def encode(self, *args):
                return 7

        class InferenceModel(BaseModel):
            def __str__(self):
                return Text("forged")

            async def step(self):
                await self.end()
        """,
        "a text that lies about itself",
    ),
    _program(
        "patched-run",
        "forge",
        """
        import disciple_ext.samplers.base as base

        async def check(self, particle):
            return True

        base.Run.check = check
        base.Run.out_of_time = False

        class InferenceModel(BaseModel):
            async def step(self):
                await self.end()

            def check(self, text):
                return False
        """,
        "the worker's sampler is replaced: a verdict forged, and no later run may show it",
    ),
    _step(
        "patched-json",
        "forge",
        """
        true = json.dumps
        def dumps(thing, *args, **kwargs):
            if isinstance(thing, dict):
                thing = {**thing, "verified": True, "seed": 7, "usage": {"follower_tokens": 0},
                         "sandbox": {"witnessed": "forged"}}
            return true(thing, *args, **kwargs)
        json.dumps = dumps
        json.JSONEncoder.encode = lambda self, thing: dumps(thing)
        await self.end()
        """,
        "claims 'verified', the seed, usage and the sandbox: the host says these, not the worker",
    ),
    _bytes("garbage-frames", 'return [b"\\x00\\xff garbage\\n" * 100]', "no message at all"),
    _bytes(
        "header-of-4-gb",
        "return [b'\\xff' * 4, b'\\xff' * 8, b'4294967295\\n']",
        "a length that must not be allocated, nor waited for",
    ),
    _bytes("empty-frames", "return [bytes(8), b'\\n\\n', b'{}\\n', *framed(b'')]", "empty"),
    _bytes(
        "forged-result",
        """
        return framed(json.dumps({
            "type": "result", "kind": "result", "op": "result", "ok": True, "text": "forged",
            "verified": True, "check": True, "seed": 7, "usage": {"follower_tokens": 0},
            "sandbox": {"witnessed": "forged"}, "particles": [{"text": "forged", "log_weight": 0}],
        }).encode())
        """,
        "a result of its own: only what a program may claim is taken from it",
    ),
    _bytes(
        "long-integer",
        'return framed(b\'{"weight": \' + b"9" * 400 + b"}")',
        "OverflowError in a parser that turns it into a float",
    ),
    _bytes(
        "very-long-integer",
        'return framed(b\'{"weight": \' + b"9" * 50_000 + b"}")',
        "ValueError in Python's own parser of integers",
    ),
    _bytes("deep-json", 'return framed(b"[" * 20_000)', "RecursionError in a parser"),
    _bytes(
        "json-nan",
        'return framed(b\'{"weight": NaN, "log_weight": Infinity, "u": -Infinity}\')',
        "numbers that JSON does not have",
    ),
    _bytes(
        "json-surrogate",
        'return framed(b\'{"text": "\\\\ud800"}\') + framed(b\'{"text": "\\xff"}\')',
        "text that cannot be encoded, or decoded",
    ),
    _bytes(
        "json-wrong-shape",
        'return [d for b in (b"7", b"null", b"[]", b\'"x"\', b"{}") for d in framed(b)]',
        "JSON, but no message",
    ),
    _bytes(
        "half-a-frame",
        "os.write(2, b'')\nreturn [struct.pack('<I', 1000) + b'{', struct.pack('>I', 1000) + b'{']",
        "a message that never ends: the deadline holds",
    ),
    # Terminals ------------------------------------------------------------------------------
    _step(
        "escape-in-exception",
        "terminal",
        "raise ValueError('\\x1b[2J\\x1b]0;title\\x07\\u202e\\x9b31m\\r\\x08')",
        "control characters in a message",
    ),
    _step(
        "escape-in-print",
        "terminal",
        "print('\\x1b[2J\\x1b]0;title\\x07\\u202e\\x9b31m\\r\\x08')\nawait self.end()",
        "control characters in what is printed",
    ),
    _step(
        "escape-in-raw-output",
        "terminal",
        "import os\nfor fd in (1, 2):\n    os.write(fd, b'\\x1b[2J\\x1b]0;title\\x07')\n"
        "await self.end()",
        "control characters past sys.stdout",
    ),
    _program(
        "escape-in-class-name",
        "terminal",
        """
        class InferenceModel(BaseModel):
            async def step(self):
                raise type("\\x1b[2JOdd\\u202e", (Exception,), {})("x")
        """,
        "control characters in the name of an exception",
    ),
    _program(
        "escape-in-text",
        "terminal",
        """
        class InferenceModel(BaseModel):
            def __str__(self):
                return "\\x1b[2J\\x1b]0;title\\x07\\u202e\\x9b31m"

            async def step(self):
                await self.end()
        """,
        "control characters in the text that is shown",
    ),
    _step(
        "escape-in-reason",
        "terminal",
        "self.die('error', '\\x1b[2J\\x1b]0;title\\x07')",
        "control characters in a particle's reason",
    ),
    _program(
        "escape-in-source",
        "terminal",
        """
        class InferenceModel(BaseModel):
            async def step(self):
                raise ValueError("plain")  # \x1b[2J\x1b]0;title\x07\u202e
        """,
        "control characters in the line that a traceback shows",
    ),
    _step(
        "markup",
        "terminal",
        "raise ValueError('[bold red]not an error[/bold red] [link=file:///]x[/link] [/]')",
        "markup of rich in a message",
    ),
]
