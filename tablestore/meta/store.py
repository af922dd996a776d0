"""Store: everything durable of one table in one frozen value, handed to writers and readers; and Identity,
which table a directory holds, so that a handle can check that its table is still there (FORMAT.md 25.9).

Anybody may drop, rename or recreate a table at any time, and a handle that was opened before must not write
into the new one. Tables created by this engine have a `tablestore.uuid` in their first schema; of others the
whole file is compared, which contains the time of creation.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import Any

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import Corrupt, NotFound, TablestoreError
from tablestore.core.options.names import UUID
from tablestore.core.options.table_options import Durability, TableOptions
from tablestore.format import binary_row, change_tracking
from tablestore.format.binary_row import Raw
from tablestore.format.change_tracking import ChangeTracking
from tablestore.format.manifests.index_manifest import IndexFileMeta
from tablestore.format.manifests.manifest import DataFileMeta
from tablestore.format.schema import TableSchema
from tablestore.format.snapshot import TABLE, Snapshot
from tablestore.format.text import cast_text, legacy_text
from tablestore.format.types.arrow_types import DataType
from tablestore.io.confined import ConfinedFileIO, confined, roots_of
from tablestore.io.fileio import FileIO, Sync
from tablestore.io.paths import TablePaths, checked_external, inside, join
from tablestore.io.routed import file_io_for
from tablestore.meta.manifests import ManifestStore
from tablestore.meta.schemas import SchemaStore
from tablestore.meta.snapshots import SnapshotStore

_MAX_LOOKED_AT = 1000  # directories that are searched for a renamed table


@dataclass(frozen=True, slots=True)
class Identity:
    """The id of the table's oldest schema, and the bytes that its file must contain."""

    schema_id: int
    token: bytes

    @classmethod
    def of(cls, oldest: TableSchema, io: FileIO, paths: TablePaths) -> Identity:
        """The identity of the table with this oldest schema. Raises NotFound if that file is gone."""
        uuid = oldest.options.get(UUID)
        if uuid:
            return cls(oldest.id, uuid.encode())
        try:
            return cls(oldest.id, io.read(paths.schema(oldest.id)))
        except FileNotFoundError:
            raise NotFound(f"no table at {paths.root}") from None

    @property
    def digest(self) -> str:
        """What is the same for one table only, also under another name; 24 characters."""
        return hashlib.sha256(self.token).hexdigest()[:24]

    def require(self, io: FileIO, paths: TablePaths) -> None:
        """Raise NotFound, saying what happened, unless the table is still there. One small read."""
        try:
            data = io.read(paths.schema(self.schema_id))
        except FileNotFoundError:
            data = None
        if data is not None and self.token in data:
            return
        what = f"{paths.root} " if paths.branch == "main" else f"branch {paths.branch} of {paths.root} "
        what += "was dropped" if data is None else "was dropped and created again"
        place = self._moved_to(io, paths.root)
        if place is not None:
            what = f"{paths.root} was renamed to {place}"
            what += "" if data is None else ", and another table created in its place,"
        raise NotFound(f"{what} since this handle was opened: open the table again")

    def _moved_to(self, io: FileIO, root: str) -> str | None:
        """The table's present location, searched in its own and the neighbouring databases; None if not
        found."""
        database, io = root.rpartition("/")[0], io.inner if isinstance(io, ConfinedFileIO) else io
        try:
            warehouse = database.rpartition("/")[0]
            others = [join(warehouse, s.name) for s in io.list(warehouse) if s.name.endswith(".db")]
            databases = [database, *(d for d in others if d != database)]
            places = [join(d, s.name) for d in databases for s in io.list(d) if s.is_dir][:_MAX_LOOKED_AT]
            for place in places:
                if place != root and self._is_at(io, place):
                    return place
        except (TablestoreError, OSError):
            return None
        return None

    def _is_at(self, io: FileIO, root: str) -> bool:
        try:
            return self.token in confined(io, root).read(TablePaths(root).schema(self.schema_id))
        except FileNotFoundError:
            return False


def remove_made_anew(io: FileIO, root: str) -> None:
    """Remove the empty directories that a writer made where no table is any more; errors are ignored."""
    try:
        if not io.list(TablePaths(root).schema_dir):
            _remove_empty(io, root)
    except (TablestoreError, OSError):
        return


def _remove_empty(io: FileIO, directory: str) -> None:
    for entry in io.list(directory):
        if entry.is_dir:
            _remove_empty(io, join(directory, entry.name))
    io.delete_empty(directory)


_MAX_TEXTS = 50_000
_NO_SCHEMA = "no schema can be read, and none can be restored from other files: put back a copy of it"


@dataclass(frozen=True, slots=True)
class Newest:
    """The snapshot that was the newest `at` this time of the monotonic clock, in seconds. `alone`: also when
    it was looked for before, so that nobody else commits at the moment."""

    snapshot: Snapshot | None
    at: float
    alone: bool = False


@dataclass(frozen=True)
class Store:
    """A table's files and its newest schema at the time of opening. Picklable: workers get a copy."""

    io: ConfinedFileIO
    env: Env
    paths: TablePaths
    schema: TableSchema
    schemas: SchemaStore
    snapshots: SnapshotStore
    manifests: ManifestStore
    identity: Identity

    @classmethod
    def open(
        cls,
        root: str,
        *,
        io: FileIO | None = None,
        env: Env = SYSTEM,
        branch: str = "main",
        roots: Iterable[str] | None = None,
        salvage: bool = False,
    ) -> Store:
        """The table at `root`, whose files may lie below it and `roots` (None: those that `io` is confined to
        already). Raises NotFound where there is none, Corrupt for a damaged schema.

        With `salvage`, for mending the table, it is opened under the newest readable schema.
        """
        files = confined(io or file_io_for(root, env=env), root, roots)
        paths = TablePaths(root, branch)
        schemas = SchemaStore(files, paths)
        try:
            oldest, schema = schemas.readable_ends() if salvage else schemas.ends()
        except Corrupt as e:
            text = _NO_SCHEMA if salvage else f"tablestore.mend({root!r}) shows what can be saved"
            raise Corrupt(e.path, e.problem, remedy=text) from None
        if not salvage:
            main = TablePaths(root)
            uuid = oldest.options.get(UUID) if branch == main.branch else _uuid_of(files, main)
            require_own(oldest, uuid, paths)
            require_own(schema, uuid, paths)
        identity = Identity.of(oldest, files, paths)
        paths = _placed(paths, schema)
        snapshots = SnapshotStore(files, paths, schema.options.get(UUID))
        stores = schemas, snapshots, ManifestStore(files, paths, partition_types_of(schema))
        return cls(files, env, paths, schema, *stores, identity)

    def __reduce__(self) -> Any:
        return _reopen, (self.io, self.env, self.paths, self.schema, self.identity)

    def require_same(self) -> None:
        """Raise NotFound, saying what happened, if the directory no longer holds the table that was
        opened."""
        self.identity.require(self.io, self.paths)

    def is_named_by(self, snapshot: Snapshot | None) -> bool:
        """Whether a snapshot that was just read says that the directory holds this table: those of ours name
        its uuid."""
        own = None if snapshot is None else (snapshot.properties or {}).get(TABLE)
        return own is not None and own == self.uuid

    def newest(self) -> Newest:
        """The newest snapshot. Raises NotFound, saying what happened, if the directory no longer holds the
        table that was opened; a snapshot that names the table saves the read of its schema."""
        at, near = self.env.monotonic(), self.snapshots.last_newest
        try:
            snapshot = self.snapshots.latest(near=near)
        except Corrupt:
            self.require_same()
            raise
        if not self.is_named_by(snapshot):
            self.require_same()
        return Newest(snapshot, at, alone=snapshot is not None and snapshot.id == near)

    def with_schema(self, schema: TableSchema) -> Store:
        """The same table under another schema (time travel, dynamic options)."""
        return replace(self, schema=schema)

    def altered_to(self, schema: TableSchema) -> Store:
        """The same table under its newest schema, as `open` gives it."""
        return replace(self, schema=schema, paths=_placed(self.paths, schema))

    @cached_property
    def options(self) -> TableOptions:
        """Typed options of the schema."""
        return TableOptions.parse(self.schema.options)

    @property
    def uuid(self) -> str | None:
        """What tells the table from others; None for tables of engines that give them none."""
        return self.schema.options.get(UUID)

    def fresh_user(self) -> str:
        """A new commit user with the prefix of `commit.user-prefix`."""
        prefix, name = self.options.commit_user_prefix, self.env.uuid()
        return name if prefix is None else f"{prefix}_{name}"

    @property
    def durable(self) -> bool:
        """Whether a commit that returned must survive a loss of power, so that its files are synced first."""
        return self.options.durability is Durability.COMMIT

    @property
    def after(self) -> Sync | None:
        """The argument `after` of `FileIO.write_new` for small files such as tags and consumers."""
        return Sync(self.paths.root) if self.durable else None

    @property
    def checksums_dir(self) -> str | None:
        """The folder of checksums with which readers verify files whose format has none; None: they do
        not."""
        return self.paths.checksums_dir if self.options.verify_checksums else None

    def sync(self, *paths: str) -> None:
        """Sync files, or deletions in folders, if the table's durability asks for it."""
        if self.durable:
            self.io.sync(Sync(self.paths.root, paths))

    @cached_property
    def partition_types(self) -> tuple[DataType, ...]:
        """Types of the partition columns."""
        return partition_types_of(self.schema)

    @cached_property
    def key_types(self) -> tuple[DataType, ...]:
        """Types of the trimmed primary key."""
        return tuple(f.type for f in self.schema.key_fields)

    @property
    def rescaled(self) -> bool:
        """Whether schemas of this table ever had another bucket count, so that partitions may differ in
        it."""
        return self.rescaled_by(self.schemas.ids())

    def rescaled_by(self, schema_ids: Sequence[int]) -> bool:
        """Whether these schemas have different bucket counts."""
        if len(schema_ids) < 2:
            return False
        return len({self.schemas.get(i).options.get("bucket") for i in schema_ids}) > 1

    def schema_of(self, schema_id: int) -> TableSchema:
        """The schema a file was written under."""
        if schema_id == self.schema.id:
            return self.schema
        try:
            schema = self.schemas.get(schema_id)
        except NotFound:
            raise Corrupt(self.paths.schema(schema_id), "the file is missing; data refer to it") from None
        require_own(schema, self.schema.options.get(UUID), self.paths)
        return schema

    @cached_property
    def _options_then(self) -> dict[int, TableOptions]:
        return {}

    def options_of(self, schema_id: int) -> TableOptions:
        """The typed options of a schema, parsed once."""
        if schema_id not in self._options_then:
            self._options_then[schema_id] = TableOptions.parse(self.schema_of(schema_id).options)
        return self._options_then[schema_id]

    @cached_property
    def change_tracking(self) -> ChangeTracking:
        """Which partitions' commits write changelog files, by the schema."""
        return ChangeTracking.of(self.schema.options)

    def tracks_changes(self, partition: bytes, tracking: ChangeTracking | None = None) -> bool:
        """Whether commits of a partition write changelog files, by `tracking` (None: that of the schema)."""
        chosen = self.change_tracking if tracking is None else tracking
        if not chosen.of_partitions:
            return chosen.of_table
        values = self.partition_values(partition)
        return chosen.tracks(change_tracking.path_of(self.schema, self.options, values))

    def key_order(self, key: bytes) -> tuple[Any, ...]:
        """A comparable form of a serialized key of this table."""
        return binary_row.key_order(key, self.key_types)

    def partition_values(self, partition: bytes) -> tuple[Raw, ...]:
        """Raw values of a partition, in partition-key order."""
        return binary_row.decode(partition, self.partition_types)

    def partition_pairs(self, partition: bytes) -> list[tuple[str, str]]:
        """(key, directory text of the value) of a partition."""
        to_text = legacy_text if self.options.partition_legacy_name else cast_text
        pairs = []
        for f, value in zip(self.schema.partition_fields, self.partition_values(partition), strict=True):
            blank = value is None or (isinstance(value, str) and not value.strip())
            pairs.append((f.name, self.options.partition_default_name if blank else to_text(value, f.type)))
        return pairs

    @cached_property
    def partition_text(self) -> Callable[[bytes], str]:
        """`l_year=1995/l_month=6` of a partition; empty for an unpartitioned table."""
        return lru_cache(_MAX_TEXTS)(self._partition_text)

    def _partition_text(self, partition: bytes) -> str:
        values = self.partition_values(partition)
        fields = self.schema.partition_fields
        return "/".join(
            f"{f.name}={self.options.partition_default_name if v is None else cast_text(v, f.type)}"
            for f, v in zip(fields, values, strict=True)
        )

    def key_text(self, key: bytes) -> str:
        """`[42, 7]` of a serialized key."""
        values = binary_row.decode(key, self.key_types)
        return "[" + ", ".join(cast_text(v, t) for v, t in zip(values, self.key_types, strict=True)) + "]"

    @cached_property
    def bucket_dir(self) -> Callable[[bytes, int], str]:
        """Directory of the files of a partition's bucket."""
        return lru_cache(_MAX_TEXTS)(lambda p, b: self.paths.bucket_dir(self.partition_pairs(p), b))

    def index_path(self, partition: bytes, bucket: int, file: IndexFileMeta | str) -> str:
        """The path of an index file of a bucket, or of a new one of that name; raises Corrupt for one outside
        the table."""
        if isinstance(file, IndexFileMeta):
            if file.external_path is not None:
                return self._outside(file.external_path, file.file_name)
            file = file.file_name
        if self.options.indexes_beside_data:
            return join(self.bucket_dir(partition, bucket), inside(file))
        return self.paths.index(file)

    def _outside(self, path: str, name: str) -> str:
        allowed, option = roots_of(self.io), self.options.external_paths
        return checked_external(path, name, allowed=allowed, option=option)

    def file_path(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """The path of a data or changelog file; raises Corrupt for names that leave the bucket,
        InvalidRequest for a directory outside the table that its options name and the caller did not."""
        if file.external_path is not None:
            try:
                return self._outside(file.external_path, file.file_name)
            except Corrupt as e:
                raise Corrupt(self.manifests.holder(file.external_path), e.problem) from None
        return join(self.bucket_dir(partition, bucket), inside(file.file_name))

    def readable_path(self, partition: bytes, bucket: int, file: DataFileMeta) -> str:
        """The path of a data file for readers that do not go through `io`; raises Corrupt if it contains a
        link."""
        return self.io.checked(self.file_path(partition, bucket, file))


def partition_types_of(schema: TableSchema) -> tuple[DataType, ...]:
    """Types of the partition columns."""
    return tuple(f.type for f in schema.partition_fields)


def require_own(schema: TableSchema, uuid: str | None, paths: TablePaths) -> None:
    """Raise Corrupt for a schema of another table than that with this uuid, as far as both have one."""
    own = schema.options.get(UUID)
    if uuid is not None and own is not None and own != uuid:
        text = f"it is of another table: '{UUID}' is {own}, and that of this table is {uuid}"
        raise Corrupt(paths.schema(schema.id), text)


def _uuid_of(files: ConfinedFileIO, paths: TablePaths) -> str | None:
    """The uuid of the table there; None where it has none, or cannot be read."""
    try:
        return SchemaStore(files, paths).ends()[0].options.get(UUID)
    except (Corrupt, NotFound):
        return None


def _placed(paths: TablePaths, schema: TableSchema) -> TablePaths:
    return replace(paths, data_directory=TableOptions.parse(schema.options).data_directory)


def _reopen(
    io: ConfinedFileIO, env: Env, paths: TablePaths, schema: TableSchema, identity: Identity
) -> Store:
    snapshots = SnapshotStore(io, paths, schema.options.get(UUID))
    stores = SchemaStore(io, paths), snapshots, ManifestStore(io, paths, partition_types_of(schema))
    return Store(io, env, paths, schema, *stores, identity)


def braced(values: Sequence[Raw], types: Sequence[DataType]) -> str:
    """Values as `{1, b}`, null as `null`."""
    return "{" + ", ".join(cast_text(v, t) for v, t in zip(values, types, strict=True)) + "}"


def braced_partition(store: Store, partition: bytes) -> str:
    """A serialized partition as `{1, b}`."""
    return braced(store.partition_values(partition), store.partition_types)


def partition_named(store: Store, text: str, snapshot: Snapshot | None = None) -> str:
    """A partition as `p=1/q=2`, from that form or from `{1, 2}`; the second is looked up among the partitions
    of a snapshot (None: the newest), and returned unchanged if there is no such partition."""
    if not text.startswith("{"):
        return text
    live, _ = store.manifests.live_entries(snapshot or store.snapshots.latest()).partitions()
    return next((store.partition_text(p) for p in live if braced_partition(store, p) == text), text)
