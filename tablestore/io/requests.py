"""How an object store is asked: requests counted by kind, objects read by ranges with read-ahead and written
in parts.

A store bills by requests and limits them, and each takes its latency, so they are what a commit or a scan
costs there. `CountedClient` stands before obstore's functions and counts what they send: a listing by its
pages, a large object by its parts. The client repeats what got no answer, with random waits, which is not
seen here; it gives up where an answer breaks off, so listings and deletes are asked again here. Safe to share
between threads.

RangeReader keeps the tail (which holds the footer) and one block. A read that continues the one before
doubles the block up to `MAX_BLOCK`; any other fetches little more than it needs. Arrow has merged
neighbouring column chunks into one read before it comes here. A reader serves one thread at a time (Arrow has
a lock).
"""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, fields
from typing import Any

from tablestore.core.extras import required
from tablestore.io.fileio import FileIO


class RangeReader(io.RawIOBase):
    """A read-only seekable file over `fetch(start, length)`."""

    TAIL = 64 << 10
    MIN_BLOCK = 16 << 10
    MAX_BLOCK = 8 << 20

    def __init__(self, fetch: Callable[[int, int], bytes], size: int, tail: bytes = b"") -> None:
        self._fetch, self._size, self._tail = fetch, size, tail
        self._position = self._expected = 0
        self._block, self._block_at = b"", 0
        self._block_bytes = self.MIN_BLOCK

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def size(self) -> int:
        """Bytes of the object."""
        return self._size

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._position, io.SEEK_END: self._size}[whence]
        self._position = max(base + offset, 0)
        return self._position

    def read(self, size: int | None = -1) -> bytes:
        left = max(self._size - self._position, 0)
        wanted = left if size is None or size < 0 else min(size, left)
        if wanted == 0:
            return b""
        data = self._cached(wanted)
        if data is None:
            data = self._load(wanted)
        self._position += wanted
        self._expected = self._position
        return data

    def readinto(self, buffer: Any) -> int:
        data = self.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def _cached(self, wanted: int) -> bytes | None:
        for block, start in ((self._tail, self._size - len(self._tail)), (self._block, self._block_at)):
            at = self._position - start
            if at >= 0 and at + wanted <= len(block):
                return block[at : at + wanted]
        return None

    def _load(self, wanted: int) -> bytes:
        follows = self._position == self._expected and self._position > 0
        self._block_bytes = min(self._block_bytes * 2, self.MAX_BLOCK) if follows else self.MIN_BLOCK
        length = min(max(wanted, self._block_bytes), self._size - self._position)
        block = self._fetch(self._position, length)
        if len(block) != length:
            raise OSError(f"{len(block)} bytes of {length} came at {self._position}")
        if length > wanted:
            self._block, self._block_at = block, self._position
        return block[:wanted]


class ObjectWriter(io.RawIOBase):
    """A write-only file over a client's multipart writer; each call runs inside the context `trouble()`.

    After an error in a write the object is not finished, so that it never appears."""

    def __init__(self, sink: Any, trouble: Callable[[], AbstractContextManager[None]]) -> None:
        self._sink, self._trouble, self._position = sink, trouble, 0
        self._whole = True

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._position

    def write(self, data: Any) -> int:
        view = memoryview(data)
        self._whole, whole = False, self._whole
        with self._trouble():
            self._sink.write(view.cast("B"))
        self._whole = whole
        self._position += view.nbytes
        return view.nbytes

    def close(self) -> None:
        if not self.closed:
            super().close()
            if self._whole:
                with self._trouble():
                    self._sink.close()


PAGE = 1000
"""Names that a store gives in one page of a listing, and takes in one bulk delete."""
RETRY_SECONDS = 0.1
"""The longest first wait before something is asked again; later ones double, each is random below it."""


@dataclass(frozen=True, slots=True)
class Requests:
    """Counts by kind. `put` are whole objects and parts of large ones, `list` pages of listings. The
    difference of two is what was asked in between; as text it reads `9 requests: 3 GET, 6 PUT`."""

    get: int = 0
    head: int = 0
    list: int = 0
    put: int = 0
    copy: int = 0
    delete: int = 0

    @property
    def total(self) -> int:
        """All of them."""
        return sum(getattr(self, f.name) for f in fields(self))

    def __sub__(self, earlier: Requests) -> Requests:
        return Requests(*(getattr(self, f.name) - getattr(earlier, f.name) for f in fields(self)))

    def __str__(self) -> str:
        kinds = [f"{n:,} {f.name.upper()}" for f in fields(self) if (n := getattr(self, f.name))]
        noun = "request" if self.total == 1 else "requests"
        return f"{self.total:,} {noun}: {', '.join(kinds)}" if kinds else "no requests"


class CountedClient:
    """obstore's module functions, each counted."""

    def __init__(self, client: Any, part_bytes: int) -> None:
        """`part_bytes`: the size from which an object goes in parts."""
        self._client, self._part = client, part_bytes
        self.exceptions = client.exceptions
        tenacity = required("tenacity", by="object stores")
        self._again = tenacity.Retrying(
            retry=tenacity.retry_if_exception_type(self.exceptions.GenericError),
            stop=tenacity.stop_after_attempt(4),
            wait=tenacity.wait_random_exponential(RETRY_SECONDS, max=5),
            reraise=True,
        )
        self._lock = threading.Lock()
        self._counts = dict.fromkeys((f.name for f in fields(Requests)), 0)

    @property
    def requests(self) -> Requests:
        """What was asked so far."""
        with self._lock:
            return Requests(**self._counts)

    def get(self, store: Any, key: str, **named: Any) -> Any:
        self._count("get")
        return self._client.get(store, key, **named)

    def get_range(self, store: Any, key: str, *, start: int, end: int) -> Any:
        self._count("get")
        return self._client.get_range(store, key, start=start, end=end)

    def head(self, store: Any, key: str) -> Any:
        self._count("head")
        return self._client.head(store, key)

    def list(self, store: Any, *, prefix: str, chunk_size: int) -> Iterator[Any]:
        """Pages of a listing; one that breaks is fetched again from where the last one ended."""
        pages: Iterator[Any] | None = None
        after: str | None = None
        listed = 0

        def page() -> Any:
            nonlocal pages, listed
            try:
                if pages is None:
                    self._count("list")
                    pages, listed = (
                        iter(self._client.list(store, prefix, offset=after, chunk_size=chunk_size)),
                        0,
                    )
                return next(pages, None)
            except self.exceptions.GenericError:
                pages = None
                raise

        while (got := self._again(page)) is not None:
            self._count("list", _pages(listed + len(got), PAGE) - _pages(listed, PAGE))
            listed += len(got)
            if got:
                after = got[-1]["path"]
                yield got

    def list_with_delimiter(self, store: Any, *, prefix: str | None) -> Any:
        """A whole listing of one directory."""

        def whole() -> Any:
            self._count("list")
            return self._client.list_with_delimiter(store, prefix=prefix)

        listing = self._again(whole)
        names = len(listing["objects"]) + len(listing["common_prefixes"])
        self._count("list", _pages(names, PAGE) - 1)
        return listing

    def put(self, store: Any, key: str, data: bytes, *, mode: str) -> Any:
        """One object; a large one in parts unless `mode` is a condition."""
        parts = len(data) > self._part and mode == "overwrite"
        self._count("put", self._puts(len(data)) if parts else 1)
        return self._client.put(
            store, key, data, mode=mode, use_multipart=parts, chunk_size=self._part, max_concurrency=4
        )

    def delete(self, store: Any, keys: str | Sequence[str]) -> None:
        """One object, or many at once."""

        def all_of_them() -> None:
            self._count("delete", 1 if isinstance(keys, str) else _pages(len(keys), PAGE))
            self._client.delete(store, keys)

        self._again(all_of_them)

    def copy(self, store: Any, key: str, target: str, *, overwrite: bool) -> None:
        self._count("copy")
        self._client.copy(store, key, target, overwrite=overwrite)

    def open_writer(self, store: Any, key: str, *, max_concurrency: int) -> CountedSink:
        """A writer whose parts are counted when it is closed."""
        sink = self._client.open_writer(store, key, buffer_size=self._part, max_concurrency=max_concurrency)
        return CountedSink(sink, lambda size: self._count("put", self._puts(size)))

    def _puts(self, size: int) -> int:
        """Requests for an object of so many bytes: one, or its parts between a begin and an end."""
        return 1 if size < self._part else _pages(size, self._part) + 2

    def _count(self, kind: str, many: int = 1) -> None:
        with self._lock:
            self._counts[kind] += many


class CountedSink:
    """A client's writer; `done` is called with its bytes when it is closed."""

    def __init__(self, sink: Any, done: Callable[[int], None]) -> None:
        self._sink, self._done, self._bytes = sink, done, 0

    def write(self, data: memoryview) -> None:
        self._bytes += data.nbytes
        self._sink.write(data)

    def close(self) -> None:
        self._done(self._bytes)
        self._sink.close()


def requests_of(io: FileIO) -> Requests:
    """What the store of this FileIO was asked so far by this process; none where it is a file system."""
    counted: Requests = io.requests() if hasattr(io, "requests") else Requests()
    return counted


def _pages(count: int, size: int) -> int:
    return max(1, -(-count // size))
