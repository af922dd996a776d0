"""The tree of a snapshot's metadata: what a node's path means, its children, and what its table shows.

Lazy: a list or manifest is read when its node is opened or chosen, once a snapshot. Paths are
`delta/manifest-…`, `files/l_month=6/1`; the snapshot itself is the empty path. Reads `inspect` only. Called
by the widget.
"""

import json
from collections.abc import Collection, Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from widgets.explorer.model import (
    CHILDREN,
    COLUMNS,
    FACTS,
    INDEXES,
    MANIFESTS,
    Listing,
    Node,
    PlainRow,
    files_listing,
    index_row,
    manifest_row,
    plain_listing,
)
from widgets.kit import format as fmt
from widgets.levels.buckets import natural

LISTS = {"base": "base manifest list", "delta": "delta manifest list", "changelog": "changelog list"}
MAX_BETWEEN = 50
_FACT = pa.schema([("fact", pa.string()), ("value", pa.string())])
_COLUMN = pa.schema(
    [("column", pa.string()), ("id", pa.int32()), ("type", pa.string()), ("role", pa.string())]
)


class SnapshotTree:
    """What `inspect` says of one snapshot, read step by step and kept; a new snapshot takes a new tree."""

    def __init__(self, inspect: Any, snapshot: int | None, against: int | None) -> None:
        self._inspect, self.snapshot, self.against = inspect, snapshot, against
        self._cache: dict[str, pa.Table] = {}
        self.row = self._snapshot_row()

    def _snapshot_row(self) -> Mapping[str, Any]:
        chosen = {"newest": 1} if self.snapshot is None else {"only": self.snapshot}
        rows = self._inspect.snapshots(**chosen).to_pylist()
        if rows:
            self.snapshot = rows[0]["snapshot_id"]
        return rows[0] if rows else {}

    def others(self, limit: int) -> list[int]:
        """The ids of the newest other snapshots, the newest first."""
        ids = self._once("ids", lambda: self._inspect.snapshots(newest=limit + 1).select(["snapshot_id"]))
        return [i for i in reversed(ids["snapshot_id"].to_pylist()) if i != self.snapshot][:limit]

    @property
    def only_compacted(self) -> bool:
        """Whether all commits between the two snapshots were compactions, so that no row changed."""
        if self.against is None or self.snapshot is None or abs(self.snapshot - self.against) > MAX_BETWEEN:
            return False
        low, high = sorted((self.against, self.snapshot))
        try:
            kinds = [
                self._inspect.snapshots(only=i)["commit_kind"][0].as_py() for i in range(low + 1, high + 1)
            ]
        except LookupError:  # one between has expired
            return False
        return bool(kinds) and set(kinds) <= {"COMPACT", "ANALYZE"}

    def _once(self, name: str, read: Any) -> pa.Table:
        if name not in self._cache:
            self._cache[name] = read()
        return self._cache[name]

    def state(self) -> pa.Table:
        """Live files of the snapshot."""
        if self.against is not None:
            files = self.files()
            return self._once("state", lambda: files.filter(pc.not_equal(files["change"], "removed")))
        return self._once("state", lambda: self._inspect.state(self.snapshot))

    def files(self) -> pa.Table:
        """Live files, or the difference of the two snapshots."""
        if self.against is None:
            return self.state()
        return self._once("diff", lambda: self._inspect.diff(self.against, self.snapshot))

    def lists(self) -> pa.Table:
        """The manifest lists of the snapshot."""
        return self._once("lists", lambda: self._inspect.manifest_lists(self.snapshot))

    def manifests(self, kind: str) -> pa.Table:
        """The manifests of one of the lists."""
        (name,) = [row["file_name"] for row in self.lists().to_pylist() if row["kind"] == kind]
        return self._once(kind, lambda: self._inspect.list_manifests(name))

    def entries(self, manifest: str) -> pa.Table:
        """What a manifest adds and removes."""
        return self._once(f"entries/{manifest}", lambda: self._inspect.entries(manifest))

    def row_groups(self, file: str) -> pa.Table:
        """The column chunks of a file of either snapshot; raises LookupError for one that neither names."""
        if self.against is not None and file not in self.state()["file_name"].to_pylist():
            return self._once(f"file/{file}", lambda: self._inspect.row_groups(file, self.against))
        return self._once(f"file/{file}", lambda: self._inspect.row_groups(file, self.snapshot))

    def nodes(self, opened: Collection[str], path: str) -> tuple[Node, ...]:
        """The rows of the tree, those of open nodes only; long lists are cut, their table has all rows."""
        nodes = [Node("", 0, f"snapshot-{self.snapshot}", str(self.row.get("commit_kind") or ""), True)]
        for row in self.lists().to_pylist():
            if row["kind"] == "index":
                nodes.append(Node("index", 1, "index manifest", _vectors(row["entries"])))
                continue
            kind = row["kind"]
            is_open = kind in opened if row["entries"] else None
            nodes.append(Node(kind, 1, LISTS[kind], fmt.bytes_text(row["file_size"]), is_open))
            if is_open:
                nodes += self._manifest_nodes(kind, path)
        nodes += self._bucket_nodes(opened, path)
        schema = self.row.get("schema_id")
        nodes.append(Node("schema", 1, f"schema-{schema}" if schema is not None else "schema"))
        nodes.append(Node("facts", 1, "snapshot file"))
        return tuple(nodes)

    def _manifest_nodes(self, kind: str, path: str) -> list[Node]:
        rows = self.manifests(kind).to_pylist()
        nodes = []
        for row in reversed(rows):  # the newest first
            gone = f" {fmt.MINUS}{row['files_deleted']:,}" if row["files_deleted"] else ""
            note = f"+{row['files_added']:,}{gone}" if row["files_added"] or not gone else gone.strip()
            nodes.append(Node(f"{kind}/{row['file_name']}", 2, row["file_name"], note, code=True))
        return _cut(nodes, path, kind)

    def _bucket_nodes(self, opened: Collection[str], path: str) -> list[Node]:
        state = self.state()
        count = fmt.plural(state.num_rows, "file")
        is_open = "files" in opened if state.num_rows else None
        nodes = [Node("files", 1, "data files", count, is_open)]
        if not is_open:
            return nodes
        sums = state.group_by(["partition", "bucket"]).aggregate([("bytes", "sum"), ("bytes", "count")])
        rows = sorted(sums.to_pylist(), key=lambda row: (natural(row["partition"]), row["bucket"]))
        for row in rows:
            place = f"{row['partition']}/{row['bucket']}"
            label = place if row["partition"] else f"bucket-{row['bucket']}"
            nodes.append(Node(f"files/{place}", 2, label, fmt.bytes_text(row["bytes_sum"])))
        return [nodes[0], *_cut(nodes[1:], path, "files")]

    def listing(self, path: str, *, changed: bool, **page: Any) -> Listing:
        """The page of the table of a node."""
        kind, _, rest = path.partition("/")
        if kind in LISTS and not rest:
            rows = self.manifests(kind)
            return plain_listing(rows, MANIFESTS, lambda row: manifest_row(row, parent=kind), **page)
        if kind in LISTS:
            return files_listing(self.entries(rest), **page)
        if kind == "index":
            return plain_listing(self._inspect.table_indexes(self.snapshot), INDEXES, index_row, **page)
        if kind == "schema":
            return plain_listing(self._columns(), COLUMNS, _column_row, **page)
        if kind == "facts":
            return plain_listing(self._facts(), FACTS, lambda r: PlainRow((r["fact"], r["value"])), **page)
        files = self.files()
        if kind == "files" and rest:
            partition, _, bucket = rest.rpartition("/")
            here = pc.and_(pc.equal(files["partition"], partition), pc.equal(files["bucket"], int(bucket)))
            files = files.filter(here)
        return files_listing(files, changed=changed and self.against is not None, **page)

    def _columns(self) -> pa.Table:
        """The columns of the snapshot's schema, from its file."""
        schemas = self._inspect.schemas()
        here = schemas.filter(pc.equal(schemas["schema_id"], self.row.get("schema_id"))).to_pylist()
        if not here:
            return _COLUMN.empty_table()
        keys, partitions = (json.loads(here[0][name] or "[]") for name in ("primary_keys", "partition_keys"))
        rows = []
        for f in json.loads(here[0]["fields"] or "[]"):
            roles = [word for word, names in (("partition", partitions), ("key", keys)) if f["name"] in names]
            kind = f["type"] if isinstance(f["type"], str) else str(f["type"].get("type", ""))
            rows.append({"column": f["name"], "id": f["id"], "type": kind, "role": ", ".join(roles)})
        return pa.Table.from_pylist(rows, schema=_COLUMN)

    def _facts(self) -> pa.Table:
        """What the snapshot file says."""
        shown = [(k.replace("_", " "), str(v)) for k, v in self.row.items() if v is not None]
        return pa.Table.from_pylist([{"fact": k, "value": v} for k, v in shown], schema=_FACT)


def _column_row(row: Mapping[str, Any]) -> PlainRow:
    return PlainRow((row["column"], str(row["id"]), row["type"], row["role"]))


def _vectors(count: int) -> str:
    return fmt.plural(count, "index file")


def _cut(nodes: list[Node], path: str, parent: str) -> list[Node]:
    """The first children, the chosen one among them, and how many more there are."""
    if len(nodes) <= CHILDREN:
        return nodes
    shown = nodes[: CHILDREN - 1]
    chosen = [node for node in nodes[CHILDREN - 1 :] if node.path == path]
    shown = [*shown[: len(shown) - len(chosen)], *chosen]
    return [*shown, Node(parent, 2, f"… {len(nodes) - len(shown):,} more in the table", more=True)]
