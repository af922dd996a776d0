"""A proxy before an S3 server that fails on command: busy, lost, cut and slow answers, before or after the
server has done what was asked."""

from __future__ import annotations

import contextlib
import http.client
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from urllib.parse import parse_qs, urlsplit

from tablestore.io.requests import Requests

FAULTS = ("busy", "busy after", "lost", "lost after", "cut", "slow")
_SLOW_DOWN = b"<Error><Code>SlowDown</Code><Message>Please reduce your request rate.</Message></Error>"
_EXPIRED = b"<Error><Code>ExpiredToken</Code><Message>The provided token has expired.</Message></Error>"
_KINDS = ("get", "head", "list", "put", "copy", "delete")
_OF_A_CONNECTION = ("connection", "transfer-encoding", "keep-alive")


@dataclass
class FaultyStore:
    """A running proxy. `fault(kind, path)` gives the fault of each request, None for none; kinds are those of
    `Requests`, and `expired` is the fault of keys that were good before. `page`: names in a page of a listing
    (None: the server's 1,000)."""

    endpoint: str
    page: int | None = None
    fault: Callable[[str, str], str | None] = lambda kind, path: None
    counts: dict[str, int] = field(default_factory=lambda: dict.fromkeys(_KINDS, 0))
    lock: threading.Lock = field(default_factory=threading.Lock)

    def asked(self, kind: str, path: str) -> str | None:
        """Count a request; its fault."""
        with self.lock:
            self.counts[kind] += 1
            return self.fault(kind, path)

    @property
    def requests(self) -> Requests:
        """What came over the wire so far."""
        with self.lock:
            return Requests(**self.counts)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    store: FaultyStore
    target: str

    def _serve(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        fault = self.store.asked(_kind(self.command, self.path, self.headers), self.path)
        if fault == "busy":
            return self._answer(503, {}, _SLOW_DOWN)
        if fault == "expired":
            return self._answer(400, {}, _EXPIRED)
        if fault == "lost":
            return self._hang_up()
        if fault == "slow":
            time.sleep(0.05)
        status, headers, answer = self._forwarded(body)
        if fault == "busy after":
            return self._answer(503, {}, _SLOW_DOWN)
        if fault in ("lost after", "cut") and (fault == "lost after" or len(answer) < 2):
            return self._hang_up()
        return self._answer(status, headers, answer, cut=fault == "cut")

    do_GET = do_HEAD = do_PUT = do_POST = do_DELETE = _serve

    def _forwarded(self, body: bytes) -> tuple[int, dict[str, str], bytes]:
        connection = http.client.HTTPConnection(self.target, timeout=60)
        try:
            path = self.path
            if self.store.page is not None and "list-type=" in path:
                path += f"&max-keys={self.store.page}"
            connection.request(self.command, path, body, dict(self.headers))
            answer = connection.getresponse()
            return answer.status, dict(answer.getheaders()), answer.read()
        finally:
            connection.close()

    def _answer(self, status: int, headers: dict[str, str], body: bytes, *, cut: bool = False) -> None:
        self.send_response_only(status)
        for name, value in headers.items():
            if name.lower() not in (*_OF_A_CONNECTION, "content-length"):
                self.send_header(name, value)
        sizes = {k.lower(): v for k, v in headers.items()}
        length = sizes.get("content-length", "0") if self.command == "HEAD" else str(len(body))
        self.send_header("Content-Length", length)
        self.end_headers()
        if self.command != "HEAD":
            with contextlib.suppress(ConnectionError):  # a client that gave up
                self.wfile.write(body[: len(body) // 2] if cut else body)
        if cut:
            self._hang_up()

    def _hang_up(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: object) -> None:
        """Nothing is logged."""


def _kind(method: str, path: str, headers: http.client.HTTPMessage) -> str:
    query = parse_qs(urlsplit(path).query, keep_blank_values=True)
    if method == "GET":
        return "list" if "list-type" in query else "get"
    if method == "POST":
        return "delete" if "delete" in query else "put"
    if method == "PUT" and "x-amz-copy-source" in headers:
        return "copy"
    return method.lower()


@contextlib.contextmanager
def faulty(endpoint: str) -> Iterator[FaultyStore]:
    """A proxy before the server at `endpoint`, until the block ends."""
    handler = type("Handler", (_Handler,), {"target": urlsplit(endpoint).netloc})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    server.daemon_threads = True
    store = FaultyStore(f"http://127.0.0.1:{server.server_address[1]}")
    handler.store = store  # type: ignore[attr-defined]  # a class of this call
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield store
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
