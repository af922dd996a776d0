"""Scratch: Arrow batches moved from memory to temporary files of this process on the local disk.

A file is written once and then memory-mapped, so the operating system may drop its pages. All files are
removed by `close`, or when the process ends normally. Used by steps that need more than memory.
"""

from __future__ import annotations

import os
import shutil
import tempfile
import weakref

import pyarrow as pa

from tablestore.core.errors import Unavailable
from tablestore.io.fileio import LocalFileIO, Sync


def scratch_folder(owner: object) -> str:
    """A new folder that is removed when `owner` is collected, or when the process ends normally."""
    folder = tempfile.mkdtemp(prefix="tablestore-")
    weakref.finalize(owner, shutil.rmtree, folder, ignore_errors=True)
    return folder


def scratch_room(folder: str) -> int:
    """How many bytes one user of scratch may take now: half of what is free on its disk."""
    return shutil.disk_usage(folder).free // 2


class ScratchFileIO(LocalFileIO):
    """The FileIO of tables that live no longer than their process: nothing is synced."""

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        return super().write_new(path, data)

    def replace(self, path: str, data: bytes, *, after: Sync | None = None) -> None:
        super().replace(path, data)

    def sync(self, what: Sync) -> list[str]:
        return []


class Scratch:
    """A folder of Arrow files. Not thread-safe."""

    def __init__(self) -> None:
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._files = 0

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """The same rows, backed by a mapped file."""
        if self._folder is None:
            self._folder = tempfile.TemporaryDirectory(prefix="tablestore-")
        path = os.path.join(self._folder.name, f"{self._files}.arrow")
        self._files += 1
        try:
            with pa.OSFile(path, "wb") as sink, pa.ipc.new_file(sink, batch.schema) as writer:
                writer.write_batch(batch)
            return pa.ipc.open_file(pa.memory_map(path)).get_batch(0)
        except OSError as e:
            raise Unavailable(e.errno or 0, f"{path}: {e.strerror or e}") from e

    def close(self) -> None:
        """Remove the files; batches that are still referenced stay readable."""
        folder, self._folder = self._folder, None
        if folder is not None:
            folder.cleanup()
