"""The calls of the protocol: key, messages, how long an answer may be, and which calls may be sent again when
an answer was lost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tablestore.fluss.messages import pb

SMALL, LISTS, ROWS = 64 << 10, 8 << 20, 64 << 20
"""The longest answers, in bytes: before a user is signed in, of what a cluster knows, of rows."""


@dataclass(frozen=True, slots=True)
class Api:
    """One call. `name` is that of its messages, `FetchLog`; `idempotent`: sent twice it does what it does
    once.

    `response_name`: the message of the answer, where it is not `<name>Response`. `answer_bytes`: how long it
    may be; where the request says how much is wanted, so much more than that.
    """

    key: int
    name: str
    idempotent: bool = True
    response_name: str = ""
    answer_bytes: int = LISTS

    @property
    def request(self) -> Any:
        """The class of its requests."""
        return getattr(pb, f"{self.name}Request")

    @property
    def response(self) -> Any:
        """The class of its answers."""
        return getattr(pb, self.response_name or f"{self.name}Response")

    def most_bytes(self, request: Any) -> int:
        """How long the answer to a request may be. A fetch gets what it asks for, and a batch more."""
        return self.answer_bytes + (max(request.max_bytes, 0) if self.name == "FetchLog" else 0)

    def __str__(self) -> str:
        return self.name


API_VERSIONS = Api(1000, "ApiVersions", answer_bytes=SMALL)
CREATE_DATABASE = Api(1001, "CreateDatabase", idempotent=False)
DROP_DATABASE = Api(1002, "DropDatabase", idempotent=False)
LIST_DATABASES = Api(1003, "ListDatabases")
DATABASE_EXISTS = Api(1004, "DatabaseExists")
CREATE_TABLE = Api(1005, "CreateTable", idempotent=False)
DROP_TABLE = Api(1006, "DropTable", idempotent=False)
GET_TABLE_INFO = Api(1007, "GetTableInfo")
LIST_TABLES = Api(1008, "ListTables")
LIST_PARTITION_INFOS = Api(1009, "ListPartitionInfos")
TABLE_EXISTS = Api(1010, "TableExists")
GET_TABLE_SCHEMA = Api(1011, "GetTableSchema")
METADATA = Api(1012, "Metadata")
PRODUCE_LOG = Api(1014, "ProduceLog", idempotent=False)
FETCH_LOG = Api(1015, "FetchLog", answer_bytes=ROWS)
PUT_KV = Api(1016, "PutKv", idempotent=False)
LOOKUP = Api(1017, "Lookup", answer_bytes=ROWS)
LIST_OFFSETS = Api(1021, "ListOffsets")
GET_LATEST_KV_SNAPSHOTS = Api(1023, "GetLatestKvSnapshots")
GET_KV_SNAPSHOT_METADATA = Api(1024, "GetKvSnapshotMetadata")
GET_FILE_SYSTEM_SECURITY_TOKEN = Api(1025, "GetFileSystemSecurityToken")
INIT_WRITER = Api(1026, "InitWriter")
COMMIT_LAKE_TABLE_SNAPSHOT = Api(1030, "CommitLakeTableSnapshot")  # keeps the last that it was sent
COMMIT_LAKE_TABLE_SNAPSHOT_V9 = Api(  # sent twice, 0.9.1 removes the file of offsets that it keeps
    1030, "CommitLakeTableSnapshot", idempotent=False, response_name="CommitLakeTableSnapshotResponseV9"
)
GET_LAKE_SNAPSHOT = Api(1032, "GetLakeSnapshot")
LIMIT_SCAN = Api(1033, "LimitScan", answer_bytes=ROWS)
PREFIX_LOOKUP = Api(1034, "PrefixLookup", answer_bytes=ROWS)
GET_DATABASE_INFO = Api(1035, "GetDatabaseInfo")
CREATE_PARTITION = Api(1036, "CreatePartition", idempotent=False)
DROP_PARTITION = Api(1037, "DropPartition", idempotent=False)
AUTHENTICATE = Api(1038, "Authenticate", idempotent=False, answer_bytes=SMALL)
LAKE_TIERING_HEARTBEAT = Api(1042, "LakeTieringHeartbeat", idempotent=False)  # an answer may hand out a table
PREPARE_LAKE_TABLE_SNAPSHOT = Api(1052, "PrepareLakeTableSnapshot")
ACQUIRE_KV_SNAPSHOT_LEASE = Api(1056, "AcquireKvSnapshotLease")
RELEASE_KV_SNAPSHOT_LEASE = Api(1057, "ReleaseKvSnapshotLease")
DROP_KV_SNAPSHOT_LEASE = Api(1058, "DropKvSnapshotLease")

APIS: dict[int, Api] = {
    api.key: api
    for api in (
        *(API_VERSIONS, CREATE_DATABASE, DROP_DATABASE, LIST_DATABASES, DATABASE_EXISTS, CREATE_TABLE),
        *(DROP_TABLE, GET_TABLE_INFO, LIST_TABLES, LIST_PARTITION_INFOS, TABLE_EXISTS, GET_TABLE_SCHEMA),
        *(METADATA, PRODUCE_LOG, FETCH_LOG, PUT_KV, LOOKUP, LIST_OFFSETS, GET_LATEST_KV_SNAPSHOTS),
        *(GET_KV_SNAPSHOT_METADATA, GET_FILE_SYSTEM_SECURITY_TOKEN, INIT_WRITER, COMMIT_LAKE_TABLE_SNAPSHOT),
        *(GET_LAKE_SNAPSHOT, LIMIT_SCAN, PREFIX_LOOKUP, GET_DATABASE_INFO, CREATE_PARTITION, DROP_PARTITION),
        *(AUTHENTICATE, LAKE_TIERING_HEARTBEAT, PREPARE_LAKE_TABLE_SNAPSHOT, ACQUIRE_KV_SNAPSHOT_LEASE),
        *(RELEASE_KV_SNAPSHOT_LEASE, DROP_KV_SNAPSHOT_LEASE),
    )
}
"""Every call that this package knows, by its key; the form up to 0.8 where there are two."""

_VERSION_OF_KEYS = ((1052, (0, 9)), (1043, (0, 8)), (1044, (0, 8)), (1042, (0, 7)))


def version_of(keys: frozenset[int] | set[int]) -> tuple[int, int]:
    """The version of a coordinator that serves these keys: (0, 6) to (0, 9); a later one counts as (0, 9)."""
    return next((version for key, version in _VERSION_OF_KEYS if key in keys), (0, 6))
