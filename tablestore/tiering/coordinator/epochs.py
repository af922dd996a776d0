"""Epochs that only grow, kept as files: that of the coordinator and one a table.

    <directory>/coordinator/<epoch>            made at each start of a coordinator
    <directory>/tables/<table id>/<epoch>      made when the table becomes Pending

Each file is made put-if-absent, and only then its epoch is used: a kill in between loses a number, and two
coordinators never give out the same one. Older files go, but for the last few, which a listing that runs
meanwhile may need.
"""

from __future__ import annotations

from tablestore.core.errors import CommitConflict
from tablestore.io.fileio import FileIO, Sync
from tablestore.io.paths import join

_KEPT, _TRIES = 8, 1_000


class FileEpochs:
    """The epochs of one coordinator, which begins with the next `coordinator` epoch. Belongs to one
    thread."""

    def __init__(self, io: FileIO, directory: str) -> None:
        self._io, self._directory = io, directory
        self._newest: dict[str, int] = {}
        self.coordinator = self._claim(join(directory, "coordinator"))

    def next(self, table_id: int) -> int:
        """An epoch of a table greater than all that any coordinator gave out before."""
        return self._claim(self._place(table_id))

    def table_ids(self) -> set[int]:
        """The tables that have files."""
        names = (entry.name for entry in self._io.list(join(self._directory, "tables")))
        return {int(name) for name in names if name.isdecimal()}

    def drop(self, table_id: int) -> None:
        """Remove the files of a table that was dropped: its id never comes again."""
        self._io.delete_tree(self._place(table_id))

    def _place(self, table_id: int) -> str:
        return join(self._directory, "tables", str(table_id))

    def _claim(self, place: str) -> int:
        """The next number of a place, made as a file that survives a loss of power."""
        epoch = self._newest.get(place)
        if epoch is None:
            names = (entry.name for entry in self._io.list(place))
            epoch = max((int(name) for name in names if name.isdecimal()), default=0)
        for _ in range(_TRIES):
            epoch += 1
            if self._io.write_new(join(place, f"{epoch:020d}"), b"", after=Sync(self._directory)):
                self._newest[place] = epoch
                if epoch > _KEPT:
                    self._io.delete(join(place, f"{epoch - _KEPT:020d}"))
                return epoch
        raise CommitConflict(f"{place}: others were first {_TRIES} times; retry later")
