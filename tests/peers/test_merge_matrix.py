"""Every merge engine, aggregate function, merge option and changelog producer against Java Paimon, at random.

The space is `merge_space`: engines × changelog producers × deletion vectors × all functions with their
options × sequence fields and groups, delete options, row-deduplicate × types of keys. A table of it is played
twice. *Apart*: each engine writes the same batches (inserts, updates, deletes, NULLs) into a table of its
own, compacts and alters it at the same points; after each step rows and changelog rows are equal. *In turns*:
both write and compact one table, see the same rows after each step and tell the same changes at the end. Any
`ROUND` tables in a row meet every pair of engine and producer and every function, which the first test shows
without Java.
"""

from __future__ import annotations

import random
import zlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import datasketches
import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.core.errors import CannotMerge, InvalidRequest
from tests.peers import merge_space
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaError, JavaPaimon, Undone
from tests.peers.merge_alterations import altered
from tests.peers.merge_space import (
    COMBINATIONS,
    FUNCTIONS,
    KIND_COLUMN,
    ROUND,
    MergeSpace,
    drawn,
    functions_of,
)

STEPS = 5
ERROR = "error"
UNMERGEABLE = ("overflow", "Overflow", "/ by zero", "Non-terminating decimal")
Rows = list[list[Any]]


def test_every_function_and_producer_has_its_turn() -> None:
    all_functions = {f.title for f in FUNCTIONS}
    for first in (0, 17, 1000):
        spaces = [drawn(n) for n in range(first, first + 2 * ROUND)]
        half = spaces[:ROUND]
        met = {(s.engine, s.producer, "deletion-vectors.enabled" in s.options) for s in half}
        wanted = {(e, producer, "deletion-vectors.enabled" in extra) for e, producer, extra in COMBINATIONS}
        assert met == wanted
        assert {f.title for s in half for f in functions_of(s.number)} == all_functions
        for engine in ("aggregation", "partial-update"):
            of_engine = [functions_of(s.number) for s in spaces if s.engine == engine]
            assert {f.title for some in of_engine for f in some} == all_functions


def test_alterations_in_a_row_fit_the_table(tmp_path: Path, seeds: Sequence[int]) -> None:
    for number in merge_space.numbers(seeds, each=ROUND):
        space, rng = drawn(number), random.Random(number)
        table = ts.open(create(space, tmp_path / str(number), {}))
        for n in range(12):
            if (alteration := altered(space, rng, f"n{n}")) is not None:
                space, change = alteration
                table.alter(our_change(change))
        schema = ts.open(table.location).store.schemas.latest()
        assert list(space.types) == [f.name for f in schema.fields]
        assert space.options.items() <= schema.options.items()


def shown(space: MergeSpace, rows: Rows, *, first: int = 0) -> Rows:
    """Rows in order; what has no order sorted, sketches as what they tell. Columns begin at cell `first`."""
    return in_order([_row(space, row, first) for row in rows])


def _row(space: MergeSpace, row: list[Any], first: int) -> list[Any]:
    shown = list(row)
    for place, column in enumerate(space.columns, first + len(space.keys)):
        cell = shown[place]
        if column.type.root == "FLOAT" and cell is not None:
            shown[place] = float(np.float32(cell))  # Java's text of a float is not always the shortest
        if column.function is None or cell is None:
            continue
        if column.function.unordered:
            shown[place] = in_order(cell)
        elif column.function.name == "theta_sketch":
            data = bytes.fromhex(cell["hex"])
            shown[place] = round(datasketches.compact_theta_sketch.deserialize(data).get_estimate(), 4)
        elif column.function.name == "hll_sketch":
            shown[place] = round(
                datasketches.hll_sketch.deserialize(bytes.fromhex(cell["hex"])).get_estimate(), 4
            )
    return shown


def ours(space: MergeSpace, path: str) -> Rows | str:
    try:
        return shown(space, cells(ts.open(path).scan().to_arrow(), space.types))
    except CannotMerge:
        return ERROR


def theirs(java: JavaPaimon, space: MergeSpace, path: str) -> Rows | str:
    try:
        return shown(space, java.rows(path))
    except JavaError as e:
        if _unmergeable(e):
            return ERROR
        raise


def _unmergeable(error: JavaError) -> bool:
    return any(text in str(error) for text in UNMERGEABLE)


def sorted_changes(space: MergeSpace, rows: Rows) -> Rows:
    """Changes by key, of one key in their order."""
    places = range(1, 1 + len(space.keys))
    plain = [_row(space, row, 1) for row in rows]
    return sorted(plain, key=lambda row: [str(row[i]) for i in places])


def our_changes(space: MergeSpace, path: str, since: int) -> Rows:
    types = {"rowkind": None, **space.types}
    return sorted_changes(
        space, cells(ts.open(path).changes(since=since), {k: t for k, t in types.items() if t})
    )


def java_changes(java: JavaPaimon, space: MergeSpace, path: str, since: int) -> Rows:
    return sorted_changes(space, [c for step in java.stream(path, since + 1) for c in step["changes"]])


def newest(path: str) -> int:
    return ts.open(path).store.snapshots.latest_id() or 0


def create(space: MergeSpace, path: Path, options: Mapping[str, str]) -> str:
    table = ts.connect(str(path)).create_table(
        "d.t",
        schema=space.types,
        primary_key=list(space.keys),
        partition_by=list(space.partitions),
        options={**space.options, **options},
    )
    return table.location


def batch(space: MergeSpace, rng: random.Random, path: str, *, deletes: bool) -> pa.Table:
    """Rows and their kinds, without those that take away if ours would refuse them."""
    rows = space.rows(rng, rng.choice([1, 4, 12, 40]))
    kinds = [
        rng.choice(["+I", "+I", "+U", "-U", "-D"] if deletes else ["+I", "+U"]) for _ in range(rows.num_rows)
    ]
    if space.engine == "first-row" and space.options.get("ignore-delete") != "true":
        kinds = ["+I"] * rows.num_rows
    typed = with_kinds(rows, kinds)
    try:
        with ts.open(path).writer() as writer:  # asks whether the rows are acceptable, writes none
            data, column = for_ours(typed)
            writer.write(data, row_kind_column=column)
            raise Undone
    except Undone:
        return typed
    except InvalidRequest:
        return with_kinds(rows, [k if k[0] == "+" else "+I" for k in kinds])


def for_ours(rows: pa.Table) -> tuple[pa.Table, str | None]:
    """What our writer is given: the rows, and which column says their kind if the table does not know."""
    return (rows.drop_columns("kind"), None) if KIND_COLUMN in rows.column_names else (rows, "kind")


def with_kinds(rows: pa.Table, kinds: list[str]) -> pa.Table:
    """The rows with a last column of their kinds; a table that keeps the kind has it in its own as well."""
    if KIND_COLUMN in rows.column_names:
        at = rows.column_names.index(KIND_COLUMN)
        rows = rows.set_column(at, KIND_COLUMN, pa.array(kinds))
    return rows.append_column("kind", [kinds])


def require_same(mine: Rows | str, other: Rows | str, place: str) -> None:
    """Fails with the rows that only one has."""
    if mine == other:
        return
    if ERROR in (mine, other):
        raise AssertionError(f"{place}\nours: {mine}\njava: {other}")
    only = ([row for row in a if row not in b] for a, b in ((mine, other), (other, mine)))
    texts = ("\n  ".join(", ".join(_short(cell) for cell in row) for row in some) for some in only)
    ours_only, javas_only = texts
    raise AssertionError(f"{place}\nonly ours:\n  {ours_only}\nonly java:\n  {javas_only}")


def _short(cell: Any) -> str:
    text = str(cell)
    return text if len(text) < 40 else f"{text[:30]}…{zlib.crc32(text.encode()):x}"


def we_write(path: str, rows: pa.Table, number: int) -> str:
    data, column = for_ours(rows)
    try:
        ts.open(path).write(data, row_kind_column=column, user="ours", identifier=number)
    except CannotMerge:
        return ERROR
    return ""


def java_writes(java: JavaPaimon, path: str, rows: pa.Table, number: int) -> str:
    kinds = None if KIND_COLUMN in rows.column_names else rows.column("kind").to_pylist()
    try:
        java.write(path, rows.drop_columns("kind"), kinds=kinds, identifier=number)
    except JavaError as e:
        if _unmergeable(e):
            return ERROR
        raise
    return ""


def we_compact(path: str, *, full: bool) -> str:
    try:
        ts.open(path).compact(full=full)
    except CannotMerge:
        return ERROR
    return ""


def java_compacts(java: JavaPaimon, path: str, number: int, *, full: bool) -> str:
    try:
        java.compact(path, user="compactor", identifier=number, full=full)
    except JavaError as e:
        if _unmergeable(e):
            return ERROR
        raise
    return ""


def our_change(change: Mapping[str, str]) -> Any:
    match change:
        case {"change": "add", "name": name, "type": kind}:
            return ts.add(name, kind)
        case {"change": "drop", "name": name}:
            return ts.drop(name)
        case {"change": "rename", "name": name, "to": new}:
            return ts.rename(name, new)
        case {"change": "type", "name": name, "type": kind}:
            return ts.retype(name, kind)
    raise AssertionError(change)


def both_alter(java: JavaPaimon, space: MergeSpace, rng: random.Random, paths: Sequence[str]) -> MergeSpace:
    """The same change of the schema in our table and in Java's."""
    alteration = altered(space, rng, f"n{rng.randrange(10**6)}")
    if alteration is None:
        return space
    space, change = alteration
    ts.open(paths[0]).alter(our_change(change))
    java.alter(paths[1], [change])
    return space


def play_apart(java: JavaPaimon, space: MergeSpace, where: Path) -> None:
    """Each has a table; compactions come at the same points."""
    rng = random.Random(space.number + 1)
    timed = {"num-sorted-run.compaction-trigger": "50", "num-levels": "2"} if space.timing_matters else {}
    if space.producer == "full-compaction":
        timed["num-sorted-run.compaction-trigger"] = "50"
    mine, other = create(space, where / "ours", timed), create(space, where / "java", timed)
    deletes = rng.random() < 0.7
    for step in range(STEPS):
        place = f"table {space.number} apart, step {step}: {space.options} {timed}"
        before = newest(mine), newest(other)
        rows = batch(space, rng, mine, deletes=deletes)
        results = {we_write(mine, rows, step), java_writes(java, other, rows, step)}
        if step and rng.random() < 0.4:
            results |= {we_compact(mine, full=True), java_compacts(java, other, step, full=True)}
        rows_now = ours(space, mine)
        require_same(rows_now, theirs(java, space, other), place)
        if rows_now == ERROR or ERROR in results:
            return
        if space.producer != "none":
            changes = our_changes(space, mine, before[0]), java_changes(java, space, other, before[1])
            require_same(*changes, f"{place}, changes")
        if rng.random() < 0.2:
            space = both_alter(java, space, rng, (mine, other))
            require_same(ours(space, mine), theirs(java, space, other), f"{place}, altered")
    require_same(ours(space, mine), theirs(java, space, mine), f"{place}, ours read by both")
    require_same(ours(space, other), theirs(java, space, other), f"{place}, Java's read by both")
    projected(space, mine, rng)
    assert ts.open(mine).check() == [], place


def projected(space: MergeSpace, path: str, rng: random.Random) -> None:
    """Some columns alone are as they are among all."""
    names = list(space.types)
    some = rng.sample(names, rng.randrange(1, len(names)))
    whole = ts.open(path).scan().to_arrow().select(some)
    assert in_order(cells(ts.open(path).scan(columns=some).to_arrow())) == in_order(cells(whole)), some


def play_in_turns(java: JavaPaimon, space: MergeSpace, where: Path) -> None:
    """Both write and compact one table."""
    rng = random.Random(space.number + 2)
    path = create(space, where / "turns", {})
    deletes = rng.random() < 0.7
    for step in range(STEPS):
        rows = batch(space, rng, path, deletes=deletes)
        if rng.random() < 0.5:
            act = we_write(path, rows, step)
        else:
            act = java_writes(java, path, rows, step)
        if step and rng.random() < 0.5:
            full = rng.random() < 0.5
            if rng.random() < 0.5:
                act += we_compact(path, full=full)
            else:
                act += java_compacts(java, path, step, full=full)
        place = f"table {space.number} in turns, step {step}: {space.options}"
        rows_now = ours(space, path)
        require_same(rows_now, theirs(java, space, path), place)
        if rows_now == ERROR or act:
            return
    if space.producer != "none":
        require_same(our_changes(space, path, 0), java_changes(java, space, path, 0), f"{place}, changes")
    assert ts.open(path).check() == [], place


@pytest.mark.peer
def test_both_engines_agree_on_random_tables(java: JavaPaimon, tmp_path: Path, seeds: Sequence[int]) -> None:
    for number in merge_space.numbers(seeds, each=4):
        space = drawn(number)
        for play in (play_apart, play_in_turns):
            play(java, space, tmp_path / str(number))
