"""What servers of Fluss answer when they refuse: a code, its name and their words."""

from __future__ import annotations

from enum import IntEnum

from tablestore.core.errors import TablestoreError
from tablestore.fluss.sign_in import PASSWORD_VARIABLE

_MOST_WORDS = 1_000


class ErrorCode(IntEnum):
    """The codes of Fluss 0.6 to 0.9."""

    UNKNOWN_SERVER_ERROR = -1
    NONE = 0
    NETWORK = 1
    UNSUPPORTED_VERSION = 2
    CORRUPT_MESSAGE = 3
    DATABASE_NOT_EXIST = 4
    DATABASE_NOT_EMPTY = 5
    DATABASE_ALREADY_EXIST = 6
    TABLE_NOT_EXIST = 7
    TABLE_ALREADY_EXIST = 8
    SCHEMA_NOT_EXIST = 9
    LOG_STORAGE = 10
    KV_STORAGE = 11
    NOT_LEADER_OR_FOLLOWER = 12
    RECORD_TOO_LARGE = 13
    CORRUPT_RECORD = 14
    INVALID_TABLE = 15
    INVALID_DATABASE = 16
    INVALID_REPLICATION_FACTOR = 17
    INVALID_REQUIRED_ACKS = 18
    LOG_OFFSET_OUT_OF_RANGE = 19
    NON_PRIMARY_KEY_TABLE = 20
    UNKNOWN_TABLE_OR_BUCKET = 21
    INVALID_UPDATE_VERSION = 22
    INVALID_COORDINATOR = 23
    FENCED_LEADER_EPOCH = 24
    REQUEST_TIME_OUT = 25
    STORAGE = 26
    OPERATION_NOT_ATTEMPTED = 27
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 28
    NOT_ENOUGH_REPLICAS = 29
    SECURITY_TOKEN = 30
    OUT_OF_ORDER_SEQUENCE = 31
    DUPLICATE_SEQUENCE = 32
    UNKNOWN_WRITER_ID = 33
    INVALID_COLUMN_PROJECTION = 34
    INVALID_TARGET_COLUMN = 35
    PARTITION_NOT_EXISTS = 36
    TABLE_NOT_PARTITIONED = 37
    INVALID_TIMESTAMP = 38
    INVALID_CONFIG = 39
    LAKE_STORAGE_NOT_CONFIGURED = 40
    KV_SNAPSHOT_NOT_EXIST = 41
    PARTITION_ALREADY_EXISTS = 42
    PARTITION_SPEC_INVALID = 43
    LEADER_NOT_AVAILABLE = 44
    PARTITION_MAX_NUM = 45
    AUTHENTICATE = 46
    SECURITY_DISABLED = 47
    AUTHORIZATION = 48
    BUCKET_MAX_NUM = 49
    FENCED_TIERING_EPOCH = 50
    RETRIABLE_AUTHENTICATE = 51
    INVALID_SERVER_RACK_INFO = 52
    LAKE_SNAPSHOT_NOT_EXIST = 53
    LAKE_TABLE_ALREADY_EXIST = 54
    INELIGIBLE_REPLICA = 55
    INVALID_ALTER_TABLE = 56
    DELETION_DISABLED = 57
    SERVER_NOT_EXIST = 58


RETRIABLE = frozenset(
    {
        ErrorCode.NETWORK,
        ErrorCode.LOG_STORAGE,
        ErrorCode.KV_STORAGE,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TABLE_OR_BUCKET,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.REQUEST_TIME_OUT,
        ErrorCode.STORAGE,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
        ErrorCode.LEADER_NOT_AVAILABLE,
    }
)
"""What a server answers whose leader is just starting or moving: the same question may be answered later."""
_STARTING = "is not initialized yet"


class FlussError(TablestoreError):
    """A server's refusal. `code` is its number (an `ErrorCode` where the number is known), `message` its
    words, `where` the call or the bucket that it is about."""

    def __init__(self, code: int, message: str = "", *, where: str = "") -> None:
        self.code, self.message, self.where = code, message, where
        name = self.name
        words = _shown(message.strip().partition("\n")[0].strip())  # without the places in its code
        if code == ErrorCode.AUTHENTICATE:
            words += (
                f" (the user is in the address, fluss://user@host:port, the password in {PASSWORD_VARIABLE})"
            )
        super().__init__(
            (f"{where}: " if where else "") + f"Fluss error {code} {name}" + (f": {words}" if words else "")
        )

    @property
    def name(self) -> str:
        """The name of the code, `TABLE_NOT_EXIST`; `UNKNOWN` for a number of a later version."""
        return ErrorCode(self.code).name if self.code in set(ErrorCode) else "UNKNOWN"

    @property
    def retriable(self) -> bool:
        """Whether the same question may be answered later."""
        return self.code in RETRIABLE or self.starting

    @property
    def starting(self) -> bool:
        """Whether the coordinator has only just started: 0.7 listens before it can answer, and says so by
        the error of no code."""
        return self.code == ErrorCode.UNKNOWN_SERVER_ERROR and _STARTING in self.message


def _shown(text: str) -> str:
    """A server's words for a terminal: not too many, and no codes that it would obey."""
    printable = "".join(c if c.isprintable() else " " for c in text[:_MOST_WORDS])
    return printable + "…" if len(text) > _MOST_WORDS else printable
