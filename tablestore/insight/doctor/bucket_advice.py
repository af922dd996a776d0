"""How many buckets a table should have: the arithmetic behind `ts.advise_buckets`. Pure.

Rows are counted by partition and by the residue of their bucket hash modulo 1536, which gives the rows of
each bucket for every number of buckets that divides 1536. Memory: 12 kB a partition, for the first 4,096 of
them; those after are counted together.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from tablestore.core import quantities, rich
from tablestore.core.errors import InvalidRequest
from tablestore.format import hashing
from tablestore.format.result_tables import result_schema
from tablestore.format.schema import TableSchema
from tablestore.write.routing import routing

RESIDUES = 1536
CANDIDATES = tuple(n for n in range(1, RESIDUES + 1) if RESIDUES % n == 0)
GUIDANCE = (200_000_000, 1 << 30)  # Paimon's: 200 MB to 1 GB a bucket
_MOST_PARTITIONS = 4_096
_HEAVY = 0.5  # of the target: a share that one value may have before a note names it
_SCHEMA = result_schema(
    "buckets int32, mean_bytes int64, largest_bytes int64, skew double, empty int32, "
    "typical_bytes int64, verdict string, proposed bool"
)


class KeyCounts:
    """Rows by partition and residue of the bucket hash. `schema` names the partition and bucket columns."""

    def __init__(self, schema: TableSchema, bucket_keys: Sequence[str], function: str) -> None:
        self._schema, self._function = schema, function
        self._fields = schema.columns(tuple(bucket_keys))
        self._places: dict[bytes, int] = {}
        self._counts = np.zeros((1, RESIDUES), dtype=np.int64)
        self.rows = 0

    def add(self, batch: pa.RecordBatch) -> None:
        """Count the rows of a batch of the table's columns."""
        if not batch.num_rows:
            return
        keys = [batch.column(f.name) for f in self._fields]
        residues = hashing.bucket_of(keys, [f.type for f in self._fields], RESIDUES, self._function)
        partitions, codes = routing.partitions_of(batch, self._schema)
        places = np.array([self._place(p) for p in partitions], dtype=np.int64)
        cells = places[codes] * RESIDUES + residues
        rows = np.bincount(cells, minlength=self._counts.size)
        self._counts += rows.reshape(self._counts.shape)
        self.rows += batch.num_rows

    def _place(self, partition: bytes) -> int:
        if partition not in self._places:
            place = min(len(self._places), _MOST_PARTITIONS)
            self._places[partition] = place
            if place >= len(self._counts):
                more = min(len(self._counts), _MOST_PARTITIONS + 1 - len(self._counts))
                self._counts = np.vstack([self._counts, np.zeros((more, RESIDUES), dtype=np.int64)])
        return self._places[partition]

    @property
    def partitions(self) -> list[bytes]:
        """The partitions that are counted one by one, in order of appearance."""
        return [p for p, place in self._places.items() if place < _MOST_PARTITIONS]

    @property
    def counts(self) -> np.ndarray:
        """Rows of each of `partitions` by residue."""
        return self._counts[: len(self.partitions)]


@dataclass(frozen=True, slots=True)
class Alternative:
    """One number of buckets: bytes of a bucket in the largest partition (mean, the largest one) and in the
    partition in the middle; `skew` is the largest over the mean, `empty` buckets hold no row."""

    buckets: int
    mean_bytes: int
    largest_bytes: int
    skew: float
    empty: int
    typical_bytes: int
    verdict: str


@dataclass(frozen=True, slots=True)
class Question:
    """What is known and wanted: rows in all (of which `counted` were looked at), bytes a row and where that
    is from, bytes a bucket may have, times that the table will grow, buckets that work at once."""

    rows: int
    counted: int
    bytes_per_row: float
    measured: str
    target_bytes: int
    growth: float
    parallelism: int
    bucket_key: tuple[str, ...]


@dataclass(frozen=True)
class BucketAdvice:
    """A proposed number of buckets a partition, with its sums. `call` is Python that does it; `notes` are
    what no number of buckets mends; `spread(n)` gives the rows and bytes of each bucket."""

    buckets: int
    alternatives: tuple[Alternative, ...]
    question: Question
    partitions: int
    largest: str
    largest_rows: int
    reason: str
    call: str
    notes: tuple[str, ...] = ()
    residues: tuple[int, ...] = field(default=(), repr=False)  # rows looked at of the largest partition

    @property
    def sampled(self) -> bool:
        """Whether only some of the rows were looked at."""
        return self.question.counted < self.question.rows

    @property
    def options(self) -> dict[str, str]:
        """The options of such a table."""
        return {"bucket": str(self.buckets), "bucket-key": ",".join(self.question.bucket_key)}

    @property
    def text(self) -> str:
        """The sums, line by line, then the alternatives."""
        q = self.question
        looked = f"{q.counted:,} looked at" if self.sampled else "all looked at"
        name = f" ({self.largest})" if self.largest else ""
        now = int(self.largest_rows * q.bytes_per_row)
        grown = "" if q.growth == 1 else f" × {q.growth:g} = {quantities.size(int(now * q.growth))}"
        parts = "1 partition" if self.partitions == 1 else f"{self.partitions:,} partitions"
        lines = [
            f"{quantities.many(self.buckets, 'bucket')}: {self.reason}",
            f"  {q.rows:,} rows, {looked}; {q.bytes_per_row:.1f} bytes a row ({q.measured})",
            f"  largest of {parts}{name}: {quantities.many(self.largest_rows, 'row')}"
            f" = {quantities.size(now)}{grown}",
            f"  target {quantities.size(q.target_bytes)} a bucket, {q.parallelism} at work at once;"
            f" bucket key {', '.join(q.bucket_key)}",
        ]
        lines += [f"  mind: {note}" for note in self.notes]
        lines.append("  buckets   mean bytes      largest   skew  empty")
        for a in self.alternatives:
            mean, largest = quantities.size(a.mean_bytes), quantities.size(a.largest_bytes)
            mark = "→" if a.buckets == self.buckets else " "
            lines.append(
                f"{mark} {a.buckets:7,} {mean:>12} {largest:>12} {a.skew:6.2f} {a.empty:6,}  {a.verdict}"
            )
        return "\n".join([*lines, f"  {self.call}"])

    def spread(self, buckets: int | None = None) -> pa.Table:
        """Rows, and bytes once grown, of each bucket of the largest partition with so many buckets (None: the
        proposed number); estimated from a sample unless all rows were looked at.

        Raises InvalidRequest for numbers that were not counted: those that do not divide 1536.
        """
        n = self.buckets if buckets is None else buckets
        if n not in CANDIDATES:
            raise InvalidRequest(
                f"{n!r} buckets were not counted; those are {', '.join(map(str, CANDIDATES))}"
            )
        q = self.question
        residues = np.array(self.residues or (0,) * RESIDUES, dtype=np.int64)
        rows = residues.reshape(RESIDUES // n, n).sum(axis=0) * (q.rows / max(q.counted, 1))
        sizes = rows * q.bytes_per_row * q.growth
        columns = (np.arange(n, dtype=np.int32), np.rint(rows).astype(np.int64), sizes.astype(np.int64))
        return pa.table(dict(zip(("bucket", "rows", "bytes"), map(pa.array, columns), strict=True)))

    def to_arrow(self) -> pa.Table:
        """The alternatives, one row each."""
        rows = [
            (*(getattr(a, name) for name in _SCHEMA.names[:-1]), a.buckets == self.buckets)
            for a in self.alternatives
        ]
        columns = zip(*rows, strict=True)
        arrays = [pa.array(c, f.type) for c, f in zip(columns, _SCHEMA, strict=True)]
        return pa.table(arrays, schema=_SCHEMA)

    def __repr__(self) -> str:
        return self.text

    def _repr_html_(self) -> str | None:
        return rich.card("advice", self)


def propose(
    counts: np.ndarray, names: Sequence[str], question: Question, *, call: str, dynamic: bool
) -> BucketAdvice:
    """The least number of buckets whose largest one stays below the target, and what others would give.

    `counts`: rows looked at, by partition (`names`) and residue; `dynamic`: whether dynamic buckets would do.
    """
    if not counts.sum():
        only = Alternative(1, 0, 0, 1.0, 0, 0, "nothing to divide")
        reason = "there are no rows; ask again with some"
        return BucketAdvice(1, (only,), question, len(names), "", 0, reason, call.format(n=1))
    scale = question.rows / question.counted
    sums = counts.sum(axis=1)
    top = int(sums.argmax())
    per_row = scale * question.bytes_per_row * question.growth
    alternatives = [_alternative(n, counts, sums, top, per_row, question) for n in CANDIDATES]
    heavy = float(counts[top].max()) * per_row
    able = [a for a in alternatives if a.buckets >= question.parallelism]
    fits = [a for a in able if a.largest_bytes <= question.target_bytes]
    least = -(-int(sums[top] * per_row) // question.target_bytes)
    chosen = fits[0] if fits else _least_bad(able or alternatives[-1:], least)
    notes = _notes(chosen, heavy, sums, question, dynamic=dynamic)
    shown = [a for a in alternatives if chosen.buckets / 8 <= a.buckets <= chosen.buckets * 8]
    return BucketAdvice(
        chosen.buckets,
        tuple(shown),
        question,
        len(names),
        names[top],
        int(sums[top] * scale),
        _reason(chosen, least, question, fits=bool(fits)),
        call.format(n=chosen.buckets),
        notes,
        tuple(counts[top].tolist()),
    )


def _least_bad(able: Sequence[Alternative], least: int) -> Alternative:
    """As many buckets as the size asks for, but none that only stay empty."""
    wanted = next((a for a in able if a.buckets >= least), able[-1])
    used = wanted.buckets - wanted.empty
    return next(
        a for a in able if a.buckets - a.empty >= used and a.largest_bytes <= wanted.largest_bytes * 1.01
    )


def _alternative(
    n: int, counts: np.ndarray, sums: np.ndarray, top: int, per_row: float, question: Question
) -> Alternative:
    by_bucket = counts.reshape(len(counts), RESIDUES // n, n).sum(axis=1)
    largest, mean = int(by_bucket.max() * per_row), int(sums[top] * per_row / n)
    own = by_bucket[top]
    if largest > question.target_bytes:
        verdict = "beyond the target"
    elif mean < GUIDANCE[0] and n > 1:
        verdict = "small: below 200 MB a bucket"
    else:
        verdict = "fits"
    typical = int(float(np.median(sums)) * per_row / n)
    return Alternative(
        n, mean, largest, float(own.max() * n / sums[top]), int((own == 0).sum()), typical, verdict
    )


def _reason(chosen: Alternative, least: int, question: Question, *, fits: bool) -> str:
    if not fits:
        return f"{least:,} by size; no number keeps the largest bucket below the target"
    if chosen.buckets == 1:
        return "everything fits in one"
    if chosen.buckets > least and chosen.mean_bytes * chosen.buckets <= question.target_bytes:
        return f"size asks for {max(least, 1):,}, {question.parallelism:,} are to work at once"
    if chosen.buckets > least:
        return f"{least:,} by size; rows spread unevenly, and only some numbers between were tried"
    return "the least that keeps the largest bucket below the target"


def _notes(
    chosen: Alternative, heavy: float, sums: np.ndarray, question: Question, *, dynamic: bool
) -> tuple[str, ...]:
    notes, key = [], ", ".join(question.bucket_key)
    if heavy > _HEAVY * question.target_bytes and chosen.skew > 1.5:
        size = quantities.size(int(heavy))
        notes.append(f"one value of the bucket key ({key}) takes {size}: no number of buckets divides it")
    if chosen.empty:
        notes.append(f"{chosen.empty:,} buckets stay empty: the bucket key ({key}) has too few values")
    uneven = len(sums) > 1 and float(sums.max()) > 20 * max(float(np.median(sums)), 1)
    if uneven and chosen.buckets > 1:
        size = quantities.size(chosen.typical_bytes)
        also = (
            "; 'bucket' = -1 gives each partition its own number, for one writer at a time" if dynamic else ""
        )
        notes.append(f"a partition in the middle gets {size} a bucket{also}")
    if chosen.buckets > 1 and chosen.mean_bytes < GUIDANCE[0]:
        notes.append("buckets are below Paimon's 200 MB to 1 GB: many small files, unless the table grows")
    return tuple(notes)


def call_of(options: Mapping[str, str]) -> str:
    """`options={'bucket': {n}, …}` of a new table, with a place for the number."""
    others = "".join(f", {k!r}: {v!r}" for k, v in options.items())
    return "lake.create_table(…, options={{'bucket': {n}" + others + "}})"
