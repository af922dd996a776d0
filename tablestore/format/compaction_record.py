"""CompactionRecord: a compaction of one bucket, with its rules, sums, bytes and time (FORMAT.md 25.6).

Records are part of commit messages, one JSON text each, and are stored in the COMPACT snapshot's property
`tablestore.compactions`: a JSON list, or, where that is shorter, `zstd:` and the Base64 of it compressed.
Other engines keep the property and ignore it. Where one commit compacts so many buckets that the property
would exceed `MAX_BYTES`, the sums of single rules are left out;
`insight.inspect.commits` finds them again. Pure values.
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, TypedDict

from tablestore.core.errors import Corrupt, brief
from tablestore.core.zstandard import zstd
from tablestore.format.manifests.data_file import DataFileMeta

PROPERTY = "tablestore.compactions"
FOLLOWED = (
    "tablestore.followed-by"  # of an APPEND whose rows are visible only with the COMPACT of the same commit
)
MAX_BYTES = 64 << 10  # of the property with all sums; kept small, as all readers parse snapshots
_PACKED = "zstd:"
_PLAIN_BYTES = 512
_MAX_UNPACKED = 64 << 20
_FLAGS = ("stalled", "full", "asked")
Numbers = tuple[tuple[str, int | float | None], ...]


@dataclass(frozen=True, slots=True)
class LevelInput:
    """The input of a compaction from neighbouring runs of one level."""

    level: int
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class MergeShape:
    """Files to merge as counts by level, in the order of their runs, and the level they go to."""

    output_level: int
    inputs: tuple[LevelInput, ...]

    @property
    def size(self) -> int:
        """Bytes of the input: the maximum that is read."""
        return sum(i.bytes for i in self.inputs)

    @property
    def files(self) -> int:
        """Input files."""
        return sum(i.files for i in self.inputs)


@dataclass(frozen=True, slots=True)
class Trial:
    """One rule tried on a bucket: its numbers, its comparisons, what it would have taken."""

    rule: str
    state: str
    numbers: Numbers = ()
    steps: tuple[tuple[Any, ...], ...] = ()
    unit: MergeShape | None = None


@dataclass(frozen=True, slots=True)
class CompactionRecord:
    """One compaction of one bucket. `partition` as text.

    `strategy` and `rule` are None where another engine compacted and only manifests show it; `inputs` are
    then all files that one commit replaced. `full`: the whole bucket went to its oldest level; `asked`: a
    caller asked for it, no rule fired. `stalled`: a writer waited for it. `millis` is None if it was not
    measured.
    """

    bucket: int
    strategy: str | None
    rule: str | None
    text: str
    output_level: int
    inputs: tuple[LevelInput, ...] = ()
    files_read: int = 0
    bytes_read: int = 0
    rows_in: int = 0
    files_written: int = 0
    bytes_written: int = 0
    rows_out: int = 0
    files_moved: int = 0
    bytes_moved: int = 0
    changelog_bytes: int = 0
    millis: int | None = None
    stalled: bool = False
    full: bool = False
    asked: bool = False
    trials: tuple[Trial, ...] = ()
    partition: str = ""

    @property
    def shape(self) -> MergeShape:
        """The input files by level, and the output level."""
        return MergeShape(self.output_level, self.inputs)


def inputs_of(files: Iterable[DataFileMeta]) -> tuple[LevelInput, ...]:
    """Counts by level of files in the order of their runs."""
    inputs = []
    for level, same in groupby(files, key=lambda f: f.level):
        some = tuple(same)
        size, rows = sum(f.file_size for f in some), sum(f.row_count for f in some)
        inputs.append(LevelInput(level, len(some), size, rows))
    return tuple(inputs)


class FileCounts(TypedDict):
    """Files, bytes and rows that a compaction read, wrote and only moved: fields of its record."""

    files_read: int
    bytes_read: int
    rows_in: int
    files_written: int
    bytes_written: int
    rows_out: int
    files_moved: int
    bytes_moved: int
    changelog_bytes: int


_COUNTS = tuple(FileCounts.__annotations__)


def counts_of(
    before: Sequence[DataFileMeta], after: Sequence[DataFileMeta], changelog: Sequence[DataFileMeta] = ()
) -> FileCounts:
    """The counts of a compaction that replaced `before` by `after`; a moved file is in both."""
    moved = {f.file_name for f in before} & {f.file_name for f in after}
    read = [f for f in before if f.file_name not in moved]
    written = [f for f in after if f.file_name not in moved]
    return {
        "files_read": len(read),
        "bytes_read": sum(f.file_size for f in read),
        "rows_in": sum(f.row_count for f in read),
        "files_written": len(written),
        "bytes_written": sum(f.file_size for f in written),
        "rows_out": sum(f.row_count for f in written),
        "files_moved": len(moved),
        "bytes_moved": sum(f.file_size for f in after if f.file_name in moved),
        "changelog_bytes": sum(f.file_size for f in changelog),
    }


def foreign_record(
    partition: str,
    bucket: int,
    before: Sequence[DataFileMeta],
    after: Sequence[DataFileMeta],
    changelog: Sequence[DataFileMeta] = (),
) -> CompactionRecord:
    """The record of another engine's compaction, made from the manifests of its commit."""
    ordered = sorted(before, key=lambda f: (f.level, -f.max_sequence))
    return CompactionRecord(
        bucket=bucket,
        strategy=None,
        rule=None,
        text="",
        output_level=max((f.level for f in after), default=0),
        inputs=inputs_of(ordered),
        **counts_of(before, after, changelog),
        partition=partition,
    )


def to_json(record: CompactionRecord) -> str:
    """One record as text."""
    return json.dumps(_body(record), separators=(",", ":"), ensure_ascii=False)


def from_json(text: str, path: str = "a commit message") -> CompactionRecord:
    """The record of `to_json`; raises Corrupt naming `path`."""
    try:
        return _record(json.loads(text))
    except DAMAGED as e:
        raise Corrupt(path, f"not a compaction record: {brief(e)}") from e


def to_property(records: Sequence[CompactionRecord], *, max_bytes: int | None = MAX_BYTES) -> str:
    """All records of a snapshot as its property; without the sums of rules beyond `max_bytes`."""
    text = _packed(records)
    if max_bytes is not None and len(text) > max_bytes:
        text = _packed([replace(r, trials=()) for r in records])
    return text


@lru_cache(maxsize=4)  # readers of a history ask for the same snapshot one after another
def from_property(text: str, path: str) -> tuple[CompactionRecord, ...]:
    """The records of a snapshot's property; raises Corrupt naming `path`."""
    try:
        return tuple(_record(body) for body in json.loads(unpacked(text)))
    except DAMAGED as e:
        raise Corrupt(path, f"property {PROPERTY!r} holds no compaction records: {brief(e)}") from e


DAMAGED = (
    ValueError,
    TypeError,
    KeyError,
    IndexError,
    AttributeError,
    RecursionError,
    binascii.Error,
    zstd.ZstdError,
)


def _packed(records: Iterable[CompactionRecord]) -> str:
    return packed(json.dumps([_body(r) for r in records], separators=(",", ":"), ensure_ascii=False))


def packed(plain: str) -> str:
    """The text, compressed if it is long."""
    if len(plain) <= _PLAIN_BYTES:
        return plain
    return _PACKED + base64.b64encode(zstd.compress(plain.encode(), 9)).decode()


def unpacked(text: str) -> str:
    """The text of `packed`; raises ValueError or ZstdError for damage."""
    if not text.startswith(_PACKED):
        return text
    data = base64.b64decode(text.removeprefix(_PACKED), validate=True)
    return zstd.ZstdDecompressor().decompress(data, max_length=_MAX_UNPACKED).decode()


def _body(record: CompactionRecord) -> dict[str, Any]:
    """The record with short keys, without empty values."""
    body: dict[str, Any] = {
        "p": record.partition,
        "b": record.bucket,
        "s": record.strategy,
        "r": record.rule,
        "x": record.text,
        "o": record.output_level,
        "i": [_input(i) for i in record.inputs],
        "n": [getattr(record, name) for name in _COUNTS],
        "ms": record.millis,
        "f": [name for name in _FLAGS if getattr(record, name)],
        "t": [_trial(t) for t in record.trials],
    }
    return {key: value for key, value in body.items() if value not in ("", None, [])}


def _record(body: dict[str, Any]) -> CompactionRecord:
    counts: dict[str, Any] = dict(zip(_COUNTS, map(_count, body["n"]), strict=True))
    flags: dict[str, Any] = {name: name in body.get("f", ()) for name in _FLAGS}
    millis = body.get("ms")
    return CompactionRecord(
        bucket=_small(body["b"]),
        strategy=_text(body.get("s")),
        rule=_text(body.get("r")),
        text=str(body.get("x", "")),
        output_level=_small(body["o"]),
        inputs=tuple(_input_of(i) for i in body.get("i", ())),
        millis=None if millis is None else _count(millis),
        trials=tuple(_trial_of(t) for t in body.get("t", ())),
        partition=str(body.get("p", "")),
        **counts,
        **flags,
    )


def _count(value: Any) -> int:
    number = int(value)
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{value!r} is not a count")
    return number


def _small(value: Any) -> int:
    number = int(value)
    if not -(1 << 31) <= number < 1 << 31:
        raise ValueError(f"{value!r} is not the number of a bucket or level")
    return number


def _text(value: Any) -> str | None:
    return None if value is None else str(value)


def _input(level_input: LevelInput) -> list[int]:
    return [level_input.level, level_input.files, level_input.bytes, level_input.rows]


def _input_of(values: Sequence[int]) -> LevelInput:
    level, files, size, rows = values
    return LevelInput(_small(level), _count(files), _count(size), _count(rows))


def _trial(trial: Trial) -> list[Any]:
    unit = None if trial.unit is None else [trial.unit.output_level, [_input(i) for i in trial.unit.inputs]]
    return [trial.rule, trial.state, dict(trial.numbers), [list(s) for s in trial.steps], unit]


def _trial_of(values: Sequence[Any]) -> Trial:
    rule, state, numbers, steps, unit = values
    shape = None if unit is None else MergeShape(_small(unit[0]), tuple(_input_of(i) for i in unit[1]))
    return Trial(str(rule), str(state), tuple(numbers.items()), tuple(tuple(s) for s in steps), shape)
