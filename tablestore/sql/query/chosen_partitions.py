"""The hint `scan.partitions`: `dt=a,h=1;dt=b`, `max_pt()` or `max_two_pt()`, as a condition of the query."""

from __future__ import annotations

from collections.abc import Mapping

from sqlglot import exp

from tablestore.core.errors import InvalidRequest, NotFound
from tablestore.format.text import cast_text
from tablestore.format.types.data_type import DataType
from tablestore.table.table import Table

HINT = "scan.partitions"
_NEWEST = {"max_pt()": 1, "max_two_pt()": 2}
_WHOLE = ("TINYINT", "SMALLINT", "INT", "BIGINT")


def condition(table: Table, text: str) -> exp.Expr:
    """What the rows of the partitions have. Raises InvalidRequest, NotFound for a column that is no partition
    column."""
    if not table.partition_by:
        raise InvalidRequest(f"{HINT}: table {table.name} is not partitioned")
    newest = _NEWEST.get(text.strip().lower())
    specs = _written(text) if newest is None else _greatest(table, newest)
    types = {f.name: f.type for f in table.store.schema.partition_fields}
    for name in (name for spec in specs for name in spec):
        if name not in types:
            raise NotFound.among("partition column", name, types)
    tests = [[_test(name, value, types[name]) for name, value in spec.items()] for spec in specs]
    return exp.or_(*(exp.and_(*one) for one in tests)) if tests else exp.false()


def _written(text: str) -> list[dict[str, str]]:
    found = []
    for spec in filter(str.strip, text.split(";")):
        pairs = [term.partition("=") for term in spec.split(",")]
        if any(not sign or not name.strip() for name, sign, _ in pairs):
            raise InvalidRequest(f"{HINT} is 'dt=a,h=1;dt=b', 'max_pt()' or 'max_two_pt()', not {text!r}")
        found.append({name.strip(): value.strip() for name, _, value in pairs})
    return found


def _greatest(table: Table, count: int) -> list[Mapping[str, str]]:
    """The greatest partitions that hold files."""
    store = table.store
    entries = store.manifests.live_entries(store.snapshots.latest())
    known = {store.partition_values(e.partition) for e in entries}
    chosen = sorted((values for values in known if None not in values), reverse=True)[:count]
    fields = store.schema.partition_fields
    return [{f.name: cast_text(v, f.type) for f, v in zip(fields, values, strict=True)} for values in chosen]


def _test(name: str, text: str, t: DataType) -> exp.Expr:
    value: exp.Expr = exp.Literal.string(text)
    if t.root in _WHOLE:
        value = exp.Literal.number(text)
    elif t.root in ("DATE", "BOOLEAN"):
        value = exp.Cast(this=value, to=exp.DataType.build(t.root))
    return exp.EQ(this=exp.column(exp.to_identifier(name, quoted=True)), expression=value)
