"""JavaPaimon: the client of tests/peers/java/PaimonPeer.java, one JVM for a whole session.

A path is a table's directory; everything is opened anew by each call, so foreign commits are seen. Values
travel in the JSON form of `tests/peers/cells.py`; rows to write may also be an Arrow table (columns by name)
or tuples. Every reading and writing call takes `branch` and `options` (Paimon's dynamic options).

    java.create(path, {"k": "BIGINT NOT NULL", "a": {"type": "ARRAY", "element": "INT"}}, primary_keys=["k"])
    java.alter(path, [{"change": "add", "name": "c", "type": "INT", "after": "k"}])
    java.write(path, [(1, [2, 3])], kinds=["+I"], user="me", identifier=0)
    java.rows(path) == in_order(cells(ours, types))

Changes of `alter`: add (name, type, comment, after / before / first / last), drop, rename (to), type,
nullability (nullable), position (after / before / first / last), comment, default (value), set_option (key,
value), remove_option (key), table_comment (comment); a nested column's name is a list.
Predicates of `where`: ["=", column, literal], also != < <= > >= starts ends contains; ["in", column, [..]],
"not in"; ["null", column], "not null"; ["and", p, q], ["or", p, q].
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tests.peers.cells import cells, in_order
from tests.peers.java_env import class_path
from tests.peers.java_process import JavaProcess

Rows = pa.Table | Sequence[Sequence[Any]]
Predicate = list[Any]


class Undone(Exception):
    """Leaves a writer without a commit."""


class JavaError(AssertionError):
    """Java Paimon refused or failed; the text is its chain of exceptions."""


@dataclass(frozen=True, slots=True)
class JavaRead:
    """What a batch read gave: fields [[name, type text]], rows and kinds in Java order, files planned."""

    fields: list[list[str]]
    rows: list[list[Any]]
    kinds: list[str]
    files_planned: list[str]

    def named(self) -> list[dict[str, Any]]:
        return [dict(zip((f[0] for f in self.fields), row, strict=True)) for row in self.rows]


class JavaPaimon(JavaProcess):
    """Reads, writes and maintains tables with Java Paimon 2.0.0. One request at a time."""

    def __init__(self) -> None:
        super().__init__("PaimonPeer", class_path())

    def ask(self, op: str, path: str, **arguments: Any) -> Any:
        """One operation by name; arguments that are None are left out."""
        request = {"op": op, "path": str(path), **{k: v for k, v in arguments.items() if v is not None}}
        answer = self.answer(request)
        if answer is None:
            raise JavaError(f"the Java process ended at {op} {path}")
        if "error" in answer:
            raise JavaError(f"Java Paimon, {op} {path}: {answer['error']}")
        return answer["ok"]

    # schema

    def create(
        self,
        path: str,
        fields: Mapping[str, Any],
        *,
        primary_keys: Sequence[str] = (),
        partition_keys: Sequence[str] = (),
        options: Mapping[str, object] | None = None,
        comment: str = "",
    ) -> None:
        """A new table; types as schema files spell them (text, or objects for nested ones; ids may be left
        out)."""
        schema = {
            "fields": [{"name": name, "type": t} for name, t in fields.items()],
            "primaryKeys": list(primary_keys),
            "partitionKeys": list(partition_keys),
            "options": _texts(options),
            "comment": comment,
        }
        self.ask("create", path, schema=schema)

    def alter(self, path: str, changes: Sequence[Mapping[str, Any]], *, branch: str | None = None) -> int:
        """ALTER TABLE; the new schema's id."""
        return self.ask("alter", path, changes=list(changes), branch=branch)

    # writing

    def write(
        self,
        path: str,
        rows: Rows,
        *,
        kinds: Sequence[str] | None = None,
        user: str = "java",
        identifier: int = 0,
        overwrite: Mapping[str, str] | None = None,
        watermark: int | None = None,
        properties: Mapping[str, str] | None = None,
        write_only: bool = False,
        expire: bool = False,
        wait: bool = True,
        branch: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> None:
        """One commit of rows, in any bucket mode; Java's writer compacts as it sees fit unless `write_only`.

        `overwrite`: the partition spec to replace ({} = the whole table, or what the rows touch when
        `dynamic-partition-overwrite`). `expire` lets the table's own retention work.
        """
        sent = cells(rows) if isinstance(rows, pa.Table) else [list(r) for r in rows]
        if isinstance(rows, pa.Table):
            sent = [dict(zip(rows.column_names, row, strict=True)) for row in sent]
        arguments = {"overwrite": overwrite, "watermark": watermark, "properties": properties}
        arguments |= {"write_only": write_only, "expire": expire, "wait": wait, "branch": branch}
        chosen = None if kinds is None else list(kinds)
        self.ask(
            "write",
            path,
            rows=sent,
            kinds=chosen,
            user=user,
            identifier=identifier,
            options=_texts(options),
            **arguments,
        )

    def compact(
        self,
        path: str,
        *,
        user: str = "java",
        identifier: int = 0,
        full: bool = True,
        branch: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> int:
        """Compaction of every bucket, or of the small files of an append table without buckets; how many
        commit messages came of it."""
        return self.ask(
            "compact",
            path,
            user=user,
            identifier=identifier,
            full=full,
            branch=branch,
            options=_texts(options),
        )

    def delete(self, path: str, where: Predicate, *, user: str = "java", identifier: int = 0) -> int:
        """Deletion vectors for matching rows of an append table; how many rows."""
        return self.ask("delete", path, where=where, user=user, identifier=identifier)

    def truncate(
        self, path: str, partitions: Sequence[Mapping[str, str]] | None = None, *, user: str = "java"
    ) -> None:
        """Empty the table, or some partitions."""
        self.ask("truncate", path, partitions=partitions, user=user)

    # reading

    def read(
        self,
        path: str,
        *,
        columns: Sequence[str] | None = None,
        where: Predicate | None = None,
        limit: int | None = None,
        exact: bool = True,
        suffix: str | None = None,
        branch: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> JavaRead:
        """Batch read. `suffix` names a system table ("snapshots", "audit_log"); with `exact` false a filter
        only prunes."""
        actual = self.ask(
            "read",
            path,
            columns=None if columns is None else list(columns),
            where=where,
            limit=limit,
            exact=exact,
            suffix=suffix,
            branch=branch,
            options=_texts(options),
        )
        return JavaRead(**actual)

    def global_table(self, warehouse: str, name: str) -> list[list[Any]]:
        """Rows of a table of the database `sys`: tables, partitions, all_table_options."""
        return self.ask("global", warehouse, name=name)["rows"]

    def rows(self, path: str, snapshot: int | None = None, **arguments: Any) -> list[list[Any]]:
        """The rows of `read`, sorted by their JSON text."""
        if snapshot is not None:
            arguments["options"] = {**(arguments.get("options") or {}), "scan.snapshot-id": snapshot}
        return in_order(self.read(path, **arguments).rows)

    def stream(
        self,
        path: str,
        start: int | None = 1,
        *,
        done: bool = False,
        branch: str | None = None,
        options: Mapping[str, object] | None = None,
    ) -> list[dict[str, Any]]:
        """What a stream delivers until it has caught up, one {"next", "changes": [[kind, cells..]]} a plan;
        start=None leaves the first snapshot to the scan options. With `done` a consumer's progress is
        written."""
        arguments = {"done": done, "branch": branch, "options": _texts(options)}
        return self.ask("stream", path, **({} if start is None else {"from": start}), **arguments)

    def lookup(
        self, path: str, keys: Sequence[Sequence[Any]], *, partition: Sequence[Any] = ()
    ) -> list[list[Any] | None]:
        """Point lookups by trimmed primary key in one partition. Paimon's local query knows no deletion
        vectors."""
        return self.ask("lookup", path, keys=[list(k) for k in keys], partition=list(partition))

    def files(self, path: str, snapshot: int | None = None, *, mode: str = "ALL", branch: str | None = None):
        """Manifest entries in full, as the golden expectations have them (mode ALL, DELTA or CHANGELOG)."""
        return self.ask("files", path, snapshot=snapshot, mode=mode, branch=branch)

    def levels(self, path: str) -> list[list[Any]]:
        """Live files: bucket, level, rows, deletes, name; sorted."""
        actual = ([f[k] for k in ("bucket", "level", "rows", "deletes", "name")] for f in self.files(path))
        return sorted(actual, key=str)

    def index_files(self, path: str, snapshot: int | None = None) -> list[dict[str, Any]]:
        return self.ask("index_files", path, snapshot=snapshot)

    def splits(self, path: str, options: Mapping[str, object] | None = None) -> list[dict[str, Any]]:
        """Batch plan: partition, bucket, raw, files, deletion_files."""
        return self.ask("splits", path, options=_texts(options))

    def snapshots(self, path: str, *, branch: str | None = None) -> list[dict[str, Any]]:
        """`$snapshots`."""
        return self.read(path, suffix="snapshots", branch=branch).named()

    def snapshot(self, path: str, number: int | None = None) -> dict[str, Any] | None:
        """A snapshot file as Java understands it; None = the newest."""
        actual = self.ask("snapshot", path, snapshot=number)
        return None if actual is None else json.loads(actual)

    def buckets(self, path: str, rows: Rows, *, hash: bool = True) -> list[list[Any]]:
        """Of each row [bucket, hex of the partition's BinaryRow, hex of the trimmed key's]; hash=False
        leaves the bucket out (tables without a bucket function)."""
        sent = cells(rows) if isinstance(rows, pa.Table) else [list(r) for r in rows]
        return self.ask("bucket", path, rows=sent, hash=hash)

    def bitmaps(self, lists: Sequence[Sequence[int]]) -> tuple[list[bytes], list[bytes]]:
        """Bytes of 64-bit bitmaps: of each list's values, added in their order, and of each joined to the
        union of all before it."""
        actual = self.ask("bitmaps", "", lists=[[str(v) for v in values] for values in lists])
        return tuple([bytes.fromhex(text) for text in actual[key]] for key in ("alone", "united"))

    # compaction without tables

    def picks(self, cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any] | None]:
        """What Java's strategies pick in layouts of the form of recorded picks."""
        return self.ask("picks", "", cases=list(cases))

    def sections(self, cases: Sequence[Sequence[Sequence[int]]]) -> list[list[list[list[int]]]]:
        """Sections of sorted runs of file numbers, of each list of files [min key, max key]."""
        return self.ask("sections", "", cases=list(cases))

    def off_peak_ratios(self, cases: Sequence[Sequence[int]]) -> list[int]:
        """The size ratio that is added, of each [start hour, end hour, ratio, hour of the day]."""
        return self.ask("off_peak_ratios", "", cases=list(cases))

    # maintenance

    def create_tag(
        self, path: str, name: str, *, snapshot: int | None = None, retain_ms: int | None = None
    ) -> None:
        self.ask("create_tag", path, name=name, snapshot=snapshot, retain_ms=retain_ms)

    def delete_tag(self, path: str, name: str) -> None:
        self.ask("delete_tag", path, name=name)

    def create_branch(self, path: str, name: str, *, tag: str | None = None) -> None:
        self.ask("create_branch", path, name=name, tag=tag)

    def delete_branch(self, path: str, name: str) -> None:
        self.ask("delete_branch", path, name=name)

    def fast_forward(self, path: str, name: str) -> None:
        self.ask("fast_forward", path, name=name)

    def rollback(self, path: str, *, snapshot: int | None = None, tag: str | None = None) -> None:
        self.ask("rollback", path, snapshot=snapshot, name=tag)

    def expire(
        self,
        path: str,
        *,
        max: int | None = None,
        min: int | None = None,
        time_ms: int | None = None,
        options: Mapping[str, object] | None = None,
        **changelog: int,
    ) -> int:
        """Expired snapshots; `changelog_max`, `changelog_min`, `changelog_time_ms` decouple changelogs."""
        arguments = {"max": max, "min": min, "time_ms": time_ms, **changelog}
        return self.ask("expire", path, options=_texts(options), **arguments)

    def expire_partitions(self, path: str) -> list[dict[str, str]]:
        """Partitions past their time, which leave the table; as the procedure of that name."""
        options = {"partition.expiration-check-interval": "0 ms"}
        return self.ask("expire_partitions", path, options=_texts(options)) or []

    def expire_changelog(self, path: str, **arguments: int) -> int:
        return self.ask("expire_changelog", path, **arguments)

    def clean_orphans(self, path: str, *, older_than_ms: int, dry_run: bool) -> int:
        return self.ask("clean_orphans", path, older_than_ms=older_than_ms, dry_run=dry_run)

    def analyze(self, path: str, statistics: Mapping[str, Any], *, user: str = "java") -> None:
        """Commit statistics (the content of a statistics file)."""
        self.ask("analyze", path, statistics=json.dumps(statistics), user=user)

    def statistics(self, path: str, options: Mapping[str, object] | None = None) -> dict[str, Any] | None:
        """Statistics that Java finds."""
        actual = self.ask("statistics", path, options=_texts(options))
        return None if actual is None else json.loads(actual)

    def compact_manifests(self, path: str, *, user: str = "java") -> None:
        self.ask("compact_manifests", path, user=user)


def _texts(options: Mapping[str, object] | None) -> dict[str, str] | None:
    if options is None:
        return None
    return {k: str(v).lower() if isinstance(v, bool) else str(v) for k, v in options.items()}
