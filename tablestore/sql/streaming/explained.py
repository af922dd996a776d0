"""EXPLAIN of a query in streaming mode: its sources, what is looked up, computed and grouped."""

from __future__ import annotations

from collections.abc import Iterator

from tablestore.cdc.change_feed import ChangeFeed
from tablestore.cdc.mysql.stream import MysqlTable
from tablestore.cdc.table_stream import TableStream
from tablestore.sql.streaming.lookups import Lookup
from tablestore.sql.streaming.plan import Input, StreamPlan


def explained_stream(plan: StreamPlan) -> list[str]:
    """Lines about a stream. No row is read."""
    lines = [line for one in plan.inputs for line in _input(one)]
    lines += [line for one in plan.step.lookups for line in _lookup(one)]
    lines += ["each batch of changes: DuckDB computes", *_indented(plan.step.sql)]
    if plan.grouping is not None:
        lines += _grouping(plan)
    taken_back = plan.retracts or plan.grouping is not None
    kinds = "+I, −U, +U and −D: rows may be taken back" if taken_back else "+I: no row is taken back"
    return [*lines, f"the result has {kinds}"]


def _input(one: Input) -> Iterator[str]:
    source = one.source
    if isinstance(source, TableStream):
        yield f"changes of {one.name}: {_start(source.feed)}"
    else:
        yield f"rows of {one.name}, as they come"
        if isinstance(source, MysqlTable):
            yield f"  {source.explained}"
    yield f"  columns: {', '.join(one.columns)} ({len(one.columns)} of {len(source.schema.names)})"
    yield f"  condition: {'none is pushed down' if one.where is None else repr(one.where)}"
    yield f"  {'rows are only added' if source.appends else 'rows may be taken back'}"
    if isinstance(source, TableStream) and source.feed.looks_up:
        yield "  what was before a change is looked up in the snapshot before"


def _start(feed: ChangeFeed) -> str:
    if feed.start == "latest":
        return "those that come from now on"
    if feed.start != "latest-full":
        return f"from those of snapshot {feed.start} on"
    at = "the newest snapshot" if feed.full is None else f"snapshot {feed.full}"
    return f"the rows of {at} first, then what changes"


def _lookup(one: Lookup) -> Iterator[str]:
    yield f"lookup in {one.name} by {', '.join(one.on)}: one snapshot a batch"
    yield f"  cache: {one.cache}"
    yield f"  columns: {', '.join(one.columns)} ({len(one.columns)} of {len(one.store.schema.shown.names)})"
    yield f"  condition: {'none' if one.where is None else repr(one.where)}"
    yield "  keys of a batch"
    yield from _indented(one.keys, "    ")


def _grouping(plan: StreamPlan) -> Iterator[str]:
    grouping = plan.grouping
    assert grouping is not None, "asked for by the caller"
    yield f"groups by {', '.join(grouping.keys) or 'nothing: there is one'}; the state is a table"
    for one in grouping.aggregates:
        distinct = "DISTINCT " if one.distinct else ""
        yield f"  {one.name} = {one.function}({distinct}{one.argument or '*'}), {one.type}"
    yield "each change of groups: DuckDB computes"
    yield from _indented(grouping.after.sql)


def _indented(text: str, by: str = "  ") -> Iterator[str]:
    for line in text.splitlines():
        yield by + line
