"""What a service and the coordinator of a cluster say to each other: the values of a heartbeat.

A service renews the tables that it holds (`tiering`), says which rounds ended (`finished`, `failed`) and asks
for a table. The coordinator answers for each table by itself: an error of one is no error of the call. Epochs
number who holds a table: `tiering_epoch` grows each time that it is handed out, `coordinator_epoch` with the
coordinator's starts (the one of Fluss 0.7 to 0.9 is always 0).
"""

from __future__ import annotations

from dataclasses import dataclass

FENCED_TIERING_EPOCH = 50  # another service holds the table
INVALID_COORDINATOR_EPOCH = 23  # the coordinator has started anew
TABLE_NOT_FOUND = 7  # the table was dropped
NOT_TIERING = -1  # the table is in another state: its time ran out, or it is handed out to nobody


@dataclass(frozen=True, slots=True)
class TableEpoch:
    """A table under the epochs with which it was handed out."""

    table_id: int
    coordinator_epoch: int
    tiering_epoch: int


@dataclass(frozen=True, slots=True)
class TieringTable:
    """A table that the coordinator hands out."""

    table_id: int
    table_path: str
    tiering_epoch: int


@dataclass(frozen=True, slots=True)
class TableResponse:
    """The answer for one table: `error_code` is None where all is well."""

    table_id: int
    error_code: int | None = None
    message: str = ""


@dataclass(frozen=True, slots=True)
class HeartbeatRequest:
    """What a service says. Empty, it asks for the coordinator's epoch alone. `cut_short`: ids, also in
    `finished`, of rounds that ended before their work was done; from 0.9 on."""

    tiering: tuple[TableEpoch, ...] = ()
    finished: tuple[TableEpoch, ...] = ()
    failed: tuple[TableEpoch, ...] = ()
    request_table: bool = False
    cut_short: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class HeartbeatResponse:
    """What the coordinator answers: its epoch, a table if one was asked for and waits, an answer a table."""

    coordinator_epoch: int
    table: TieringTable | None = None
    tiering: tuple[TableResponse, ...] = ()
    finished: tuple[TableResponse, ...] = ()
    failed: tuple[TableResponse, ...] = ()
