"""What the rules share: texts of buckets and counts, and the calls that mend. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from tablestore.core import quantities
from tablestore.core.quantities import many
from tablestore.insight.doctor.facts import Facts
from tablestore.insight.doctor.finding import MendingCall

_NAMED = 8  # buckets that a call names one by one


def where(facts: Facts, places: Sequence[int]) -> str:
    """The first place and how many more there are."""
    more = len(places) - 1
    return facts.name(places[0]) + (f" and {many(more, 'more bucket')}" if more else "")


def compact_call(facts: Facts, places: Sequence[int], **mode: bool) -> tuple[MendingCall, ...]:
    """`table.compact(full=True, partition='dt=1', bucket=3)`: no wider than the places, if they are few.
    `mode` is full=True, until_quiet=True or nothing."""
    named: dict[str, Any] = dict(mode)
    partitions = {facts.places.partition[p] for p in places}
    if len(partitions) == 1 and facts.schema.partition_keys:
        named["partition"] = facts.store.partition_text(partitions.pop())
        partitions = {b""}
    buckets = sorted(int(facts.places.bucket[p]) for p in places)
    if len(partitions) == 1 and facts.options.bucket != 1 and facts.keyed:
        if len(buckets) == 1:
            named["bucket"] = buckets[0]
        elif len(buckets) <= _NAMED and len(buckets) < len(facts.places):
            named["bucket"] = buckets
    return (MendingCall("compact", keywords=named),)


def set_call(**options: object) -> tuple[MendingCall, ...]:
    """`table.alter(ts.set_options({'write-only': 'false'}))`; names with `_` for `-`."""
    return (MendingCall("set_options", ({k.replace("_", "-"): str(v) for k, v in options.items()},)),)


def size(n: int) -> str:
    """Bytes in words."""
    return quantities.size(int(n))
