"""Objects of a store as files: a reader that fetches ranges with read-ahead, and a multipart writer.

RangeReader keeps the tail (which holds the footer) and one block. A read that continues the one before
doubles the block up to `MAX_BLOCK`; any other fetches little more than it needs. Arrow has merged
neighbouring column chunks into one read before it comes here. A reader serves one thread at a time (Arrow has
a lock).
"""

from __future__ import annotations

import io
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


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
