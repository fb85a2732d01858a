"""An OpenAI-compatible endpoint that does what a script says, faults included.

A process of its own: ``python server.py`` prints its port. A test POSTs a list of replies to
``/script``, and GETs what was asked from ``/requests``. A reply is an object with

- ``status`` (200), ``headers``, ``wait`` (seconds before it), and one of
- ``json``: sent as JSON; ``raw``: sent as text/html;
- ``events``: sent as server-sent events, strings as they are, objects as JSON. ``end`` says how
  they end: ``done`` ([DONE]), ``close`` (the socket is closed inside the chunked body),
  ``quiet`` (the body ends, without [DONE]) or ``stall`` (nothing more comes);
- ``fault``: ``stall`` (never an answer) or ``close`` (the socket is closed at once).
"""

from __future__ import annotations

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

STALL = 20.0


class Endpoint(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.lock = threading.Lock()
        self.script: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []

    def handle_error(self, request: Any, client_address: Any) -> None:
        pass  # clients that hang up are part of the tests


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Endpoint

    def do_GET(self) -> None:
        self._send(200, json.dumps(self.server.requests).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/script":
            with self.server.lock:
                self.server.script, self.server.requests = body, []
            self._send(200, b"{}")
            return
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.server.lock:
            asked = {"path": self.path, "headers": headers, "body": body, "time": time.time()}
            self.server.requests.append(asked)
            reply = self.server.script.pop(0) if self.server.script else None
        if reply is None:
            reply = {"status": 400, "json": {"error": {"message": "the script is over"}}}
        self._reply(reply)

    def _reply(self, reply: dict[str, Any]) -> None:
        time.sleep(reply.get("wait", 0.0))
        status, headers = reply.get("status", 200), reply.get("headers", {})
        if "events" in reply:
            self._stream(reply, headers)
        elif "fault" in reply:
            if reply["fault"] == "stall":
                time.sleep(STALL)
            self.close_connection = True
        elif "raw" in reply:
            self._send(status, reply["raw"].encode(), headers, kind="text/html")
        else:
            self._send(status, json.dumps(reply["json"]).encode(), headers)

    def _send(
        self,
        status: int,
        data: bytes,
        headers: dict[str, str] | None = None,
        kind: str = "application/json",
    ) -> None:
        self.send_response(status)
        named = {"Content-Type": kind, "Content-Length": str(len(data)), **(headers or {})}
        for name, value in named.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, reply: dict[str, Any], headers: dict[str, str]) -> None:
        self.send_response(200)
        for name, value in {"Content-Type": "text/event-stream", **headers}.items():
            self.send_header(name, value)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for event in reply["events"]:
            time.sleep(reply.get("pause", 0.0))
            self._chunk(f"data: {event if isinstance(event, str) else json.dumps(event)}\n\n")
        end = reply.get("end", "done")
        if end == "done":
            self._chunk("data: [DONE]\n\n")
        elif end == "stall":
            time.sleep(STALL)
        if end in ("done", "quiet"):
            self.wfile.write(b"0\r\n\r\n")
        self.close_connection = end not in ("done", "quiet")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(f"{len(data):x}\r\n".encode() + data + b"\r\n")
        self.wfile.flush()

    def log_message(self, format: str, *args: Any) -> None:
        pass


if __name__ == "__main__":
    with Endpoint() as endpoint:
        print(endpoint.server_address[1], flush=True)
        threading.Thread(target=endpoint.serve_forever, args=(0.02,), daemon=True).start()
        sys.stdin.read()  # ends with the tests
