"""SnapshotExpired, not Corrupt, where a file is missing because what named it expired meanwhile.

Snapshots go before the files that they name, so what is missing of one that is still there is damage. Used
below all reads of metadata (`manifests.py`) and of data files (`read/scan/time_travel.py`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

from tablestore.core.errors import Corrupt, SnapshotExpired
from tablestore.format import snapshot as snapshot_format
from tablestore.format.binary_row import DamagedRow
from tablestore.io.fileio import FileIO
from tablestore.io.paths import TablePaths, join


@contextmanager
def expiring(io: FileIO, paths: TablePaths, ids: Iterable[int], *, changes: bool = False) -> Iterator[None]:
    """A context that raises SnapshotExpired where a file is missing because one of these snapshots expired
    meanwhile. Its state is read, which a tag keeps, too; with `changes` what a long-lived changelog keeps."""
    try:
        yield
    except (Corrupt, FileNotFoundError) as e:
        if isinstance(e, DamagedRow) or (isinstance(e, Corrupt) and not is_missing(io, e.path)):
            raise
        gone = _first_expired(io, paths, list(ids), changes=changes)
        if gone is None:
            raise
        raise SnapshotExpired(f"snapshot {gone} expired while it was read; read again") from e


def is_missing(io: FileIO, path: str) -> bool:
    """Whether there is no such file; False for a path that no file of the table may have."""
    try:
        return not io.exists(path)
    except Corrupt:
        return False


def _first_expired(io: FileIO, paths: TablePaths, ids: list[int], *, changes: bool) -> int | None:
    """The first of these that nothing keeps any more."""
    gone = [i for i in ids if not io.exists(paths.snapshot(i))]
    if gone and changes:
        gone = [i for i in gone if not io.exists(paths.changelog(i))]
    elif gone:
        kept = set(_tagged(io, paths))
        gone = [i for i in gone if i not in kept]
    return gone[0] if gone else None


def _tagged(io: FileIO, paths: TablePaths) -> Iterator[int]:
    for status in io.list(paths.tag_dir):
        path = join(paths.tag_dir, status.name)
        try:
            yield snapshot_format.from_json(io.read(path), path).id
        except (Corrupt, FileNotFoundError):  # it keeps nothing that could be read
            continue
