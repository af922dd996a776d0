"""The five stages of the game: what streams in, what the disk can do, and the four budgets. Values only.

Orders of a tick are rows of a workload of the simulator; `spells` change them, or the disk, from one tick to
another. Budgets are those of the whole stage: `reads` and `space` as means after each tick, `writes` as bytes
written over bytes that came in, `stalls` as ticks in which writers waited.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

MIB = 1 << 20


@dataclass(frozen=True, slots=True)
class Budgets:
    """What may be used until the end. Within all four the stage is won."""

    reads: float
    writes: float
    space: float
    stalls: int


@dataclass(frozen=True, slots=True)
class Spell:
    """From tick `start` on, before tick `stop`, other orders or another disk; `says` goes to the log."""

    start: int
    stop: int
    says: str
    rows: int | None = None
    disk_mib: float | None = None
    workload: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Stage:
    """One stage. `rows` come in each tick, `buffer` of them fit into memory; `disk_mib` is what a bucket can
    read and write in a tick; `scans` is the share of readers who ask every bucket, not that of one key."""

    number: int
    name: str
    says: str
    budgets: Budgets
    rows: int = 1_000
    buffer: int = 4_000
    ticks: int = 90
    disk_mib: float = 10.0
    scans: float = 0.5
    workload: Mapping[str, Any] = field(default_factory=dict)
    spells: tuple[Spell, ...] = ()

    def spell(self, tick: int) -> Spell | None:
        """What is other in a tick."""
        return next((spell for spell in self.spells if spell.start <= tick < spell.stop), None)

    def rows_at(self, tick: int) -> int:
        """Orders that come in."""
        spell = self.spell(tick)
        return self.rows if spell is None or spell.rows is None else spell.rows

    def disk_at(self, tick: int) -> float:
        """Bytes that a bucket's disk reads and writes."""
        spell = self.spell(tick)
        return MIB * (self.disk_mib if spell is None or spell.disk_mib is None else spell.disk_mib)

    def workload_at(self, tick: int, rows: int) -> dict[str, Any]:
        """The workload of a flush of so many rows."""
        spell = self.spell(tick)
        other = spell.workload if spell is not None else {}
        return {**COMMON, **self.workload, **other, "rows": rows}


COMMON = {"kind": "zipf", "keys": 30_000, "row_bytes": 1024, "skew": 0.8}
STAGES = (
    Stage(
        1,
        "Opening day",
        "A few articles sell often. Flush; step when a rule is due. Every second reader asks all buckets.",
        Budgets(reads=3.7, writes=2.5, space=1.42, stalls=6),
    ),
    Stage(
        2,
        "Returns",
        "One order in three is taken back. Deletes stay until they meet the oldest level, and space is dear.",
        Budgets(reads=2.9, writes=2.5, space=1.37, stalls=6),
        workload={"deletes": 0.33},
    ),
    Stage(
        3,
        "A hot article",
        "Everybody asks for one article, all the time. Reads and space are dear, writes are cheap.",
        Budgets(reads=1.7, writes=4.0, space=1.12, stalls=6),
        workload={"skew": 1.3},
    ),
    Stage(
        4,
        "A slow disk",
        "The disk slows down at tick 30. Here every reader asks for one key, and so one bucket.",
        Budgets(reads=2.75, writes=2.5, space=1.34, stalls=4),
        scans=0.0,
        spells=(Spell(30, 65, "the disk slows down", disk_mib=3.0),),
    ),
    Stage(
        5,
        "The nightly reload",
        "At tick 45 all is loaded again, four times as fast, while the disk is half as fast. Be ready.",
        Budgets(reads=4.9, writes=1.9, space=1.68, stalls=14),
        workload={"deletes": 0.1},
        spells=(
            Spell(
                45,
                57,
                "the nightly reload begins",
                rows=4_000,
                disk_mib=5.0,
                workload={"kind": "uniform"},
            ),
        ),
    ),
)
