"""The errors that the engine raises, ordered by what the caller does next.

`InvalidRequest` fix the call · `NotFound` look at the names offered · `SnapshotExpired` read again ·
`CommitConflict` redo on the newer snapshot · `CommitUnknown` retry with the same identifier · `Unavailable`
later · `Corrupt` look at the file named.
"""

from __future__ import annotations

import errno
from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any

_MAX_SHOWN, _MAX_CAUSE = 1000, 200


class TablestoreError(Exception):
    """Root of all errors of this package. Picklable, so that workers can send them back whole."""

    def __reduce__(self) -> Any:
        return _restored, (type(self), self.args, self.__dict__)


def _restored(kind: type[TablestoreError], args: tuple[Any, ...], state: dict[str, Any]) -> TablestoreError:
    """The unpickled error; not made by `__init__`, whose parameters differ from `args`."""
    error = kind.__new__(kind, *args)
    error.args = args
    error.__dict__.update(state)
    return error


class InvalidRequest(TablestoreError, ValueError):
    """The call cannot be carried out as written; nothing was changed."""


class SchemaMismatch(InvalidRequest):
    """The data do not fit the table's columns or types."""


class InvalidOption(InvalidRequest):
    """A table or catalog option has a value that cannot be used."""


class OutsideRoots(InvalidRequest):
    """A statement of a confined session names a file, a variable or a catalog out of its reach; nothing was
    read or written."""


class Unsupported(InvalidRequest):
    """A feature of the format that this version does not have. `feature` names it."""

    def __init__(self, feature: str, why: str = "") -> None:
        self.feature, self.why = feature, why
        super().__init__(f"not supported: {feature}" + (f" ({why})" if why else ""))


class UnsupportedAttribute(Unsupported, AttributeError):
    """A name of the public API that does not exist yet; `hasattr` is False for it."""


class MissingPackage(Unsupported, ImportError):
    """The call needs a package that is not installed; the text says how to install it."""


class NotFound(TablestoreError, LookupError):
    """A database, table, column, snapshot or tag that does not exist."""

    @classmethod
    def among(cls, what: str, name: str, existing: Iterable[str]) -> NotFound:
        """The error with the nearest existing names in its text."""
        names = sorted(existing)
        near = [n for n in names if n.casefold() == str(name).casefold()]
        near = near or get_close_matches(str(name), names, n=3, cutoff=0.5)
        if near:
            return cls(f"no {what} {name!r}; did you mean {' or '.join(near)}?")
        shown = ", ".join(names[:5]) + (", …" if len(names) > 5 else "")
        return cls(f"no {what} {name!r}; there {f'are: {shown}' if names else 'is none'}")

    def __str__(self) -> str:
        return str(self.args[0]) if self.args else ""


class SnapshotExpired(NotFound):
    """A snapshot expired while it was read: read again, the newest one or one that a tag keeps."""


class AlreadyExists(TablestoreError):
    """The name is taken."""


class CommitConflict(TablestoreError):
    """Another commit changed what this one relied on: read again and redo.

    Nothing of this commit is in the table. `files` are the names concerned, `snapshot` the newer snapshot
    that conflicts.
    """

    def __init__(self, message: str, *, files: tuple[str, ...] = (), snapshot: int | None = None) -> None:
        self.files, self.snapshot = files, snapshot
        super().__init__(message)


class RoundStopped(CommitConflict):
    """A round of work was asked to stop before its commit; nothing was committed."""

    def __init__(self) -> None:
        super().__init__("the round was stopped: nothing was committed")


class CommitUnknown(TablestoreError):
    """It is not known whether the commit succeeded: retry with the same identifier, delete nothing. Or a call
    failed after a part of it was done: the message says which, and what to do."""


class RowsNotVisible(CommitUnknown):
    """The rows of a write are in the table, in `snapshot`, and readers do not see them yet: the compaction
    that shows them failed. A retry with the same identifier, or `compact()`, shows them; a retry without an
    identifier would write them again."""

    def __init__(self, message: str, *, snapshot: int | None = None) -> None:
        self.snapshot = snapshot
        super().__init__(message)


class Unavailable(TablestoreError, OSError):
    """The store did not answer as it should; the same call may succeed later."""

    @property
    def no_space(self) -> bool:
        """Whether the disk or the user's quota is full."""
        return self.errno in (errno.ENOSPC, errno.EDQUOT)


class CannotMerge(TablestoreError):
    """Rows of one key do not become one row: `column`, `key` and `reason` say where and why; `table` is added
    by the reader or writer."""

    def __init__(self, column: str, key: dict[str, Any], reason: str, type_name: str | None = None) -> None:
        self.column, self.key, self.reason, self.table = column, key, reason, ""
        self._type = type_name
        super().__init__(column, key, reason, type_name)

    def within(self, table: str) -> CannotMerge:
        """The same error with the name of the table."""
        self.table = self.table or table
        return self

    def __str__(self) -> str:
        at = f"key {', '.join(f'{k} = {v!r}' for k, v in self.key.items())}"
        where = f"{self.table}: {at}" if self.table else at
        text = f"{where} cannot be merged: column {self.column!r}: {self.reason}"
        if "overflow" in self.reason:
            text += f"; ALTER the column, now {self._type}, to a wider type"
        return text + " (dynamic option 'tablestore.merge.on-error' = 'skip' reads the other keys)"


class Corrupt(TablestoreError):
    """A file of the table does not hold what the format says.

    `remedy` says what can still be read; `sound` is the id of the newest snapshot that can be read, if known.
    """

    def __init__(self, path: str, problem: Any, *, remedy: str = "", sound: int | None = None) -> None:
        problem = _cut(str(problem), _MAX_SHOWN)
        self.path, self.problem, self.remedy, self.sound = path, problem, remedy, sound
        super().__init__(f"{path}: {problem}" + (f"; {remedy}" if remedy else ""))


class FileMissing(Corrupt):
    """A file that the table's metadata names does not exist."""

    def __init__(self, path: str) -> None:
        super().__init__(path, "the file is missing")


def require_there(there: object, what: str) -> None:
    """Raise Unavailable where something that was begun is not there: what it lies on is not mounted, say.
    Nothing may be written then, or another would begin in its place."""
    if not there:
        raise Unavailable(errno.ENOENT, f"{what} is away: mount what holds it")


def brief(error: BaseException) -> str:
    """An exception as one short text, `ValueError('no magic')`; bytes of a damaged file in it are cut
    short."""
    if isinstance(error, UnicodeDecodeError):
        return f"UnicodeDecodeError({error.encoding}, {error.reason} at byte {error.start})"
    return _cut(repr(error), _MAX_CAUSE)


def _cut(text: str, limit: int) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
