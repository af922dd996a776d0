"""The key axis of a bucket: positions 0 … 1 and the keys that stand there.

Invariant: a label is never a guess; round numbers appear only if the positions of all files follow the
leading number of their keys, else the two ends are named. Pure. Called by the model and the figure.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from widgets.kit import format as fmt

LEADING = r"^\[?(?P<number>-?[0-9]+(?:\.[0-9]+)?)"
"""The leading number of a key as `inspect` writes it: `[15953, 1]`."""
Tick = tuple[float, str]


@dataclass(frozen=True, slots=True)
class KeyAxis:
    """Where keys stand. Without `slope` positions are ranks or text, and only `ends` are known."""

    start: float = 0.0
    slope: float = 0.0
    ends: tuple[Tick, ...] = ()
    whole: bool = False

    def ticks(self, view: tuple[float, float] = (0.0, 1.0)) -> tuple[Tick, ...]:
        """Labels of the shown part: round numbers, or the ends that are in view."""
        low, high = view
        if not self.slope:
            return tuple((x, label) for x, label in self.ends if low - 1e-9 <= x <= high + 1e-9)
        first, last = (self.start + self.slope * x for x in view)
        ticks = _round_ticks(first, last, whole=self.whole)
        return tuple(((value - self.start) / self.slope, label) for value, label in ticks)

    def key_at(self, x: float) -> str | None:
        """The key at a position, if positions follow keys."""
        return fmt.count(round(self.start + self.slope * x)) if self.slope else None


def key_axis(lo: np.ndarray, hi: np.ndarray, low_keys: pa.Array, high_keys: pa.Array) -> KeyAxis:
    """The axis that the ends of these files lie on."""
    xs = np.concatenate([lo, hi])
    keys = pa.concat_arrays([low_keys.cast(pa.string()), high_keys.cast(pa.string())])
    if not len(xs):
        return KeyAxis()
    places = (int(np.argmin(xs)), int(len(lo) + np.argmax(hi)))
    named = [(float(xs[at]), keys[at].as_py()) for at in places]
    ends = tuple((x, fmt.key(text)) for x, text in named if text is not None)
    numbers = pc.struct_field(pc.extract_regex(keys, LEADING), "number")
    if numbers.null_count or named[1][0] <= named[0][0]:
        return KeyAxis(ends=ends)
    values = numbers.cast(pa.float64()).to_numpy()
    slope, start = np.polyfit(xs, values, 1)
    if slope <= 0 or np.abs(start + slope * xs - values).max() > 0.005 * slope:
        return KeyAxis(ends=ends)
    return KeyAxis(float(start), float(slope), ends, whole=bool((values == np.round(values)).all()))


def _round_ticks(low: float, high: float, *, whole: bool) -> Iterator[Tick]:
    """Four to eight round values between two keys; no fractions where all keys are whole."""
    span = high - low
    power = 10.0 ** np.floor(np.log10(span))
    step = next(s * power for s in (0.1, 0.2, 0.5, 1.0, 2.0) if span / (s * power) <= 8)
    step = max(step, 1.0) if whole else step
    near = 1e-6 * span  # the ends of the axis come from a fit
    largest = max(abs(low), abs(high))
    for value in np.arange(np.ceil((low - near) / step), np.floor((high + near) / step) + 1) * step:
        yield float(value), _tick(float(value) + 0.0, step, largest)


def _tick(value: float, step: float, largest: float) -> str:
    """One unit for all labels: millions or thousands only where the axis reaches them."""
    for unit, scale, needed in (("M", 1e6, 1e6), ("k", 1e3, 1e4)):
        if largest >= needed and step >= 0.05 * scale and value:
            return f"{value / scale:.10g} {unit}".replace("-", fmt.MINUS)
    return f"{value:,.10g}".replace("-", fmt.MINUS)
