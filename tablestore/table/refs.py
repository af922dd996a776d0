"""`table.tags`, `table.branches`, `table.consumers`: the names by which snapshots of a table are known.

Each is a small view: verbs, `list()` as an Arrow table with Paimon's columns, and a repr that shows it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from datetime import timedelta

import pyarrow as pa

from tablestore import doors
from tablestore.core.arguments import checked
from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.core.options.table_options import duration_ms
from tablestore.meta import consumers, refs
from tablestore.meta.refs import Tag
from tablestore.meta.store import Store
from tablestore.table.log_of import require_log_ends_at
from tablestore.write.retention import branches, tags
from tablestore.write.retention.tags import Removed

Duration = str | timedelta


def milliseconds(age: Duration, what: str) -> int:
    """Milliseconds of "1 d", "10 min" or a timedelta; raises InvalidRequest naming the argument."""
    if isinstance(age, timedelta):
        return int(age.total_seconds() * 1000)
    try:
        return duration_ms(age)
    except (ValueError, TypeError, AttributeError):
        raise InvalidRequest(f"{what} {age!r} must be a duration such as '10 min', or a timedelta") from None


class _RefListing:
    """The common part of all three: a store, and a listing."""

    _what = ""

    def __init__(self, store: Store) -> None:
        self._store = store

    def list(self) -> pa.Table:
        """All of them, as an Arrow table with the columns of Paimon's system table.

        >>> orders.tags.list().num_rows, orders.branches.list().num_rows, orders.consumers.list().num_rows
        (2, 0, 0)
        """
        return getattr(doors.inspect(self._store), self._what)()

    def names(self) -> builtins.list[str]:
        """Their names, sorted.

        >>> orders.tags.names(), orders.branches.names(), orders.consumers.names()
        (['v1', 'v2'], [], [])
        """
        return sorted(self.list().column(0).to_pylist())

    def __iter__(self) -> Iterator[str]:
        return iter(self.names())

    def __len__(self) -> int:
        return len(self.names())

    def __contains__(self, name: object) -> bool:
        return name in self.names()

    def __repr__(self) -> str:
        rows = self.list()
        if not rows.num_rows:
            return f"no {self._what}"
        shown = [_shown(row) for row in rows.slice(0, 20).to_pylist()]
        more = rows.num_rows - len(shown)
        return "\n".join(
            [f"{rows.num_rows} {self._what}:", *shown, *([f"  … and {more} more"] if more else [])]
        )


def _shown(row: dict[str, object]) -> str:
    name, *rest = row.items()
    details = ", ".join(f"{k} {v}" for k, v in rest if v is not None)
    return f"  {name[1]}: {details}"


@checked
class Tags(_RefListing):
    """Names that keep snapshots readable after they have expired."""

    _what = "tags"

    def create(
        self,
        name: str,
        snapshot: int | None = None,
        *,
        retain: Duration | None = None,
        replace: bool = False,
    ) -> Tag:
        """Give a `snapshot` (None: the newest) the name `name`, which keeps it.

        `retain` ("1 d") is how long, else `tag.default-time-retained`. Raises AlreadyExists unless `replace`,
        NotFound for a snapshot that nothing keeps.

        >>> orders.tags.create("before", snapshot=1, retain="7 d").snapshot.id
        1
        """
        self._store.require_same()
        retained = self._store.options.tag_time_retained_ms
        if retain is not None:
            retained = milliseconds(retain, "retain")
        return tags.create(self._store, name, snapshot=snapshot, retained_ms=retained, replace=replace)

    def rename(self, name: str, to: str) -> Tag:
        """Give the tag `name` the name `to`. Raises NotFound, AlreadyExists.

        >>> _ = orders.tags.rename("v1", to="first")
        >>> orders.tags.names()
        ['first', 'v2']
        """
        self._store.require_same()
        return tags.rename(self._store, name, to)

    def delete(self, name: str) -> Removed:
        """Remove the tag `name`, and the files that only it kept. Raises NotFound naming the nearest.

        >>> _ = orders.tags.delete("v1")
        >>> orders.tags.names()
        ['v2']
        """
        self._store.require_same()
        return tags.delete(self._store, name)

    def expire(self) -> list[str]:
        """Remove the tags that are older than their time to live, as each commit does; their names.

        >>> orders.tags.expire()
        []
        """
        self._store.require_same()
        return tags.expire(self._store)


@checked
class Branches(_RefListing):
    """Lines of history beside the table's own, from a tag or empty."""

    _what = "branches"

    def create(self, name: str, tag: str | None = None) -> None:
        """Make the branch `name`: with the rows of `tag`, or (None) empty with the table's columns. Raises
        AlreadyExists, NotFound for an unknown tag.

        >>> orders.branches.create("dev", tag="v1")
        >>> orders.branch("dev").write([{"order_id": 9}]).rows, orders.scan().count()
        (1, 3)
        """
        self._store.require_same()
        branches.create(self._store, name, tag=tag)

    def delete(self, name: str) -> Removed:
        """Remove the branch `name`, and the files that only it needed. Raises NotFound naming the nearest.

        >>> orders.branches.create("dev")
        >>> _ = orders.branches.delete("dev")
        >>> orders.branches.names()
        []
        """
        self._store.require_same()
        return branches.delete(self._store, name)

    def rename(self, name: str, to: str) -> None:
        """Give the branch `name` the name `to`. Raises NotFound naming the nearest, AlreadyExists.

        >>> orders.branches.create("dev", tag="v1")
        >>> orders.branches.rename("dev", to="next")
        >>> orders.branches.names()
        ['next']
        """
        self._store.require_same()
        branches.rename(self._store, name, to)

    def fast_forward(self, name: str) -> Removed:
        """Make the state and history of the branch `name` those of the table. Snapshots of the table since
        the branch began are removed.

        Open the table again (`refresh`) afterwards: its columns may have changed. Raises NotFound naming the
        nearest.

        >>> orders.branches.create("dev", tag="v1")
        >>> _ = orders.branch("dev").write([{"order_id": 9}])
        >>> _ = orders.branches.fast_forward("dev")
        >>> orders.refresh().scan().count()
        4
        """
        self._store.require_same()
        if name in refs.branches(self._store):
            newest = refs.on_branch(self._store, name).snapshots.latest()
            require_log_ends_at(self._store, newest, "fast_forward")
        return branches.fast_forward(self._store, name)


@checked
class Consumers(_RefListing):
    """Named stream readers and where each goes on; it keeps snapshots from expiring."""

    _what = "consumers"

    def reset(self, name: str, next_snapshot: int) -> None:
        """Let the reader `name`, a known or a new one, go on at snapshot `next_snapshot`. Raises
        InvalidRequest for ids below 1.

        >>> orders.consumers.reset("dashboard", 2)
        >>> orders.consumers.names()
        ['dashboard']
        """
        if isinstance(next_snapshot, bool) or not isinstance(next_snapshot, int) or next_snapshot < 1:
            raise InvalidRequest(f"next_snapshot {next_snapshot!r} must be a snapshot id")
        consumers.record(self._store, name, next_snapshot)

    def delete(self, name: str) -> None:
        """Forget the place of the reader `name`. Raises NotFound naming the nearest.

        >>> orders.consumers.reset("dashboard", 2)
        >>> orders.consumers.delete("dashboard")
        >>> orders.consumers.names()
        []
        """
        if name not in consumers.names(self._store):
            raise NotFound.among("consumer", name, consumers.names(self._store))
        consumers.delete(self._store, name)


def require_branch(store: Store, name: str) -> None:
    """Raise NotFound, naming the nearest, unless the branch is there; InvalidRequest for a list."""
    if isinstance(name, list | tuple | dict):
        raise InvalidRequest(f"name {name!r} must be text")
    if name != refs.MAIN and name not in refs.branches(store):
        raise NotFound.among("branch", name, refs.branches(store))
