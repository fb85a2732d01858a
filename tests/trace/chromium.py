"""A headless Chromium, driven through its DevTools protocol over a pipe: no driver, no port."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

__all__ = ["Browser", "found"]

_FLAGS = (
    "--headless --no-sandbox --disable-gpu --disable-quic --no-first-run --disable-sync "
    "--disable-background-networking --disable-component-update --disable-dev-shm-usage "
    "--hide-scrollbars --remote-debugging-pipe --force-color-profile=srgb"
).split()


def found() -> str | None:
    """Where Chromium is, or None."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Browser:
    """One page in a browser of its own.

    Attributes:
        console: errors and warnings of the console, exceptions included.
        requests: addresses that the page asked for.
    """

    def __init__(self, width: int = 1280, height: int = 900) -> None:
        self._size = width, height
        self.console: list[str] = []
        self.requests: list[str] = []
        self._number = 0
        self._buffer = b""

    def __enter__(self) -> Self:
        path = found()
        assert path is not None
        self._home = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        theirs_in, self._out = os.pipe()
        self._in, theirs_out = os.pipe()

        # Chromium reads commands from descriptor 3, and writes to 4.
        command = f'exec "$0" "$@" 3<&{theirs_in} 4>&{theirs_out}'
        arguments = [*_FLAGS, f"--user-data-dir={self._home.name}", "about:blank"]
        self._process = subprocess.Popen(
            ["bash", "-c", command, path, *arguments],
            pass_fds=(theirs_in, theirs_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(theirs_in)
        os.close(theirs_out)
        self._session: str | None = None
        targets = self.send("Target.getTargets")["targetInfos"]
        target = next(t["targetId"] for t in targets if t["type"] == "page")
        attached = self.send("Target.attachToTarget", targetId=target, flatten=True)
        self._session = attached["sessionId"]
        # Seconds of the page's own thread, whatever else the machine does.
        self.send("Performance.enable", timeDomain="threadTicks")
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.resize(*self._size)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._process.terminate()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._in)
        os.close(self._out)
        self._home.cleanup()

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        """Give a command, and wait for its answer."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._out, data) :]
        while True:
            answer = self._read()
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                result: dict[str, Any] = answer["result"]
                return result
            self._hear(answer)

    def open(self, path: Path, *, offline: bool = True) -> float:
        """Open a file, and wait until the viewer is ready; gives the seconds that it took."""
        self.send(
            "Network.emulateNetworkConditions",
            offline=offline,
            latency=0,
            downloadThroughput=-1,
            uploadThroughput=-1,
        )
        begun = time.monotonic()
        self.send("Page.navigate", url=path.absolute().as_uri())
        ready = "document.readyState === 'complete' && document.body.dataset.ready === 'true'"
        self.until(ready)
        self.run("new Promise(requestAnimationFrame)")
        return time.monotonic() - begun

    def until(self, condition: str, seconds: float = 20.0) -> None:
        """Wait until a condition of the page's holds."""
        end = time.monotonic() + seconds
        while self.run(f"!!({condition})") is not True:
            if time.monotonic() > end:
                raise TimeoutError(f"{condition}; the console says {self.console}")
            time.sleep(0.01)

    def run(self, expression: str) -> Any:
        """The value of an expression of the page's, awaited."""
        done = self.send(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        if "exceptionDetails" in done:
            raise RuntimeError(json.dumps(done["exceptionDetails"])[:2000])
        return done["result"].get("value")

    def busy(self) -> float:
        """CPU seconds that the page's main thread has worked since it was opened."""
        metrics = self.send("Performance.getMetrics")["metrics"]
        return float(next(m["value"] for m in metrics if m["name"] == "TaskDuration"))

    def press(self, key: str) -> None:
        """Press and release a key."""
        text = {"text": " "} if key == " " else {}
        code = {" ": "Space"}.get(key, key)
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, code=code, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=code)

    def mouse(self, kind: str, x: float, y: float) -> None:
        """Move to a place of the window, or click there."""
        if kind == "click":
            for event in ("mousePressed", "mouseReleased"):
                self.send(
                    "Input.dispatchMouseEvent", type=event, x=x, y=y, button="left", clickCount=1
                )
        else:
            self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def resize(self, width: int, height: int, scale: float = 1.0) -> None:
        """Set the size of the window, in CSS pixels."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=scale,
            mobile=width < 600,
        )

    def prefer(self, **features: str) -> None:
        """Set media features, such as ``prefers_color_scheme="dark"``."""
        wanted = [{"name": k.replace("_", "-"), "value": v} for k, v in features.items()]
        self.send("Emulation.setEmulatedMedia", features=wanted)

    def screenshot(self, path: Path) -> None:
        """Write what the window shows as a PNG."""
        self.run("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))")
        shot = self.send("Page.captureScreenshot", format="png", optimizeForSpeed=False)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _read(self, seconds: float = 60.0) -> dict[str, Any]:
        while b"\0" not in self._buffer:
            if not select.select([self._in], [], [], seconds)[0]:
                raise TimeoutError("Chromium does not answer")
            data = os.read(self._in, 2**20)
            if not data:
                raise RuntimeError("Chromium has gone")
            self._buffer += data
        message, _, self._buffer = self._buffer.partition(b"\0")
        answer: dict[str, Any] = json.loads(message)
        return answer

    def _hear(self, event: dict[str, Any]) -> None:
        params = event.get("params", {})
        match event.get("method"):
            case "Runtime.exceptionThrown":
                self.console.append(json.dumps(params["exceptionDetails"])[:1000])
            case "Runtime.consoleAPICalled" if params["type"] in ("error", "warning", "assert"):
                self.console.append(json.dumps(params["args"])[:1000])
            case "Log.entryAdded" if params["entry"]["level"] in ("error", "warning"):
                self.console.append(json.dumps(params["entry"])[:1000])
            case "Network.requestWillBeSent":
                self.requests.append(params["request"]["url"])
