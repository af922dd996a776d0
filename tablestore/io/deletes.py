"""Many deletes, one after another: on the local file system a directory stays open between its files.

The path to it is walked and checked once for all of them, not once for each: an expiry deletes thousands of
files in a few directories. Other stores are asked file by file.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tablestore.io.confined import ConfinedFileIO, is_local
from tablestore.io.fileio import open_below, trouble


@contextmanager
def deletes(io: ConfinedFileIO) -> Iterator[Callable[[str], None]]:
    """A function that does what `io.delete` does, with the same errors, for one file after another."""
    if not is_local(io):
        yield io.delete
        return
    opened: dict[str, int] = {}  # the directory of the last file

    def close() -> None:
        while opened:
            os.close(opened.popitem()[1])

    def delete(path: str) -> None:
        folder, _, name = path.rpartition("/")
        with trouble(path):
            try:
                if folder not in opened:
                    close()
                    io.checked(path, last=False)
                    opened[folder] = open_below(io.base_of(path), path)
                os.unlink(name, dir_fd=opened[folder])
            except FileNotFoundError:
                pass

    try:
        yield delete
    finally:
        close()
