"""What `ts.advise_buckets` proposes, as values to draw: its sums, the numbers tried, the rows of each bucket.

Pure. All numbers are the engine's. Called by `widget`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from widgets.kit import format as fmt

BARS = 40  # buckets that the text form draws


class Advice(Protocol):
    """What `ts.advise_buckets` gives."""

    @property
    def buckets(self) -> int: ...
    @property
    def alternatives(self) -> Sequence[Any]: ...
    @property
    def question(self) -> Any: ...
    @property
    def partitions(self) -> int: ...
    @property
    def largest(self) -> str: ...
    @property
    def largest_rows(self) -> int: ...
    @property
    def reason(self) -> str: ...
    @property
    def call(self) -> str: ...
    @property
    def notes(self) -> tuple[str, ...]: ...
    @property
    def text(self) -> str: ...

    def spread(self, buckets: int | None = None) -> pa.Table:
        """Rows and bytes of each bucket with so many buckets."""
        ...


@dataclass(frozen=True, slots=True)
class Suggestion:
    """One number of buckets; bytes of a bucket of the largest partition."""

    buckets: int
    largest: int
    mean: int
    skew: float
    empty: int
    verdict: str

    @property
    def label(self) -> str:
        """For a screen reader."""
        sizes = f"largest {fmt.bytes_text(self.largest)}, mean {fmt.bytes_text(self.mean)}"
        return f"{fmt.plural(self.buckets, 'bucket')}: {sizes}, skew {self.skew:.2f}, {self.verdict}"


@dataclass(frozen=True, slots=True)
class AdviceModel:
    """The proposal with its sums; `sizes` and `rows` are those of the buckets of `shown`."""

    proposed: int
    shown: int
    reason: str
    sums: tuple[str, ...]
    tried: tuple[Suggestion, ...]
    target: int
    partition: str
    key: str
    sizes: tuple[int, ...]
    rows: tuple[int, ...]
    notes: tuple[str, ...]
    call: str

    @property
    def chosen(self) -> Suggestion:
        """The number whose buckets are shown."""
        return next(t for t in self.tried if t.buckets == self.shown)


def advice_model(advice: Advice, *, shown: int) -> AdviceModel:
    """The advice, with the buckets of one of its alternatives."""
    spread, q = advice.spread(shown), advice.question
    tried = tuple(
        Suggestion(a.buckets, a.largest_bytes, a.mean_bytes, a.skew, a.empty, a.verdict)
        for a in advice.alternatives
    )
    return AdviceModel(
        proposed=advice.buckets,
        shown=shown,
        reason=advice.reason,
        sums=_sums(advice),
        tried=tried,
        target=q.target_bytes,
        partition=advice.largest,
        key=", ".join(q.bucket_key),
        sizes=tuple(spread["bytes"].to_pylist()),
        rows=tuple(spread["rows"].to_pylist()),
        notes=tuple(advice.notes),
        call=advice.call,
    )


def _sums(advice: Advice) -> tuple[str, ...]:
    """The arithmetic in the engine's own lines, between its first line and its table."""
    lines = [line.strip() for line in advice.text.splitlines()[1:]]
    end = next(at for at, line in enumerate(lines) if line.startswith(("mind:", "buckets ")))
    return tuple(lines[:end])


def text_form(model: AdviceModel, whole: str) -> str:
    """The engine's text, and a line a bucket of those shown."""
    highest = max(model.sizes, default=0)
    lines = [whole, f"{fmt.plural(model.shown, 'bucket')} by {model.key}:"]
    for bucket, (size, rows) in enumerate(zip(model.sizes[:BARS], model.rows[:BARS], strict=True)):
        bar = "█" * round(30 * size / highest) if highest else ""
        lines.append(f"  bucket-{bucket:<5}{fmt.bytes_text(size):>10} {fmt.count(rows):>12} rows  {bar}")
    more = model.shown - BARS
    return "\n".join([*lines, f"  … and {fmt.plural(more, 'bucket')} more"] if more > 0 else lines)
