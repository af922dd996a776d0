"""Each option at each place: values that are none are refused, what stored rows rely on is not set for one
use, and no other option changes the rows of a scan, but for those that say what is read."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, TablestoreError
from tablestore.core.options.names import FIXED_WITH_DATA, WRITE_MODES
from tablestore.core.options.rules import describe, names, places_of
from tablestore.core.options.table_options import TableOptions
from tablestore.core.options.values import STORED, Place, boolean

BY_KEY = {f.metadata["key"]: f for f in fields(TableOptions)}
COLUMNS = {"k": ts.INT, "v": ts.INT, "s": ts.STRING}
OTHERS: tuple[str, ...] = (
    "fields.v.aggregate-function",
    "fields.v.ignore-retract",
    "fields.v.sequence-group",
    "primary-key",
)
OTHERS += ("partition", "path", "write-mode", "tablestore.uuid", "fields.default-aggregate-function")
# What a scan reads is what these say.
OF_READS = re.compile(r"scan\.|incremental-|branch$|consumer|tablestore\.(scan\.log|merge\.on-error)$")


def samples(key: str) -> list[str]:
    """Values that the option takes, of each kind that is worth a try."""
    if key not in BY_KEY:
        return list(WRITE_MODES) if key == "write-mode" else ["v", "sum", "last_value"]
    parse = BY_KEY[key].metadata["strict"]
    if parse is boolean:
        return ["true", "false"]
    try:
        parse("nonsense!")
    except ValueError as e:
        listed = str(e).removeprefix("one of ")
        if listed != str(e):
            return listed.split(", ")
    collected = []
    for text in ("7", "1", "0.5", "1 ms", "1 kb", "UTC", "counts", "0:avro", "v", "s", "d"):
        try:
            parse(text)
        except ValueError:
            continue
        collected.append(text)
    return collected


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> list[ts.Table]:
    """Tables whose rows differ from what their files hold: updates, deletes and sums at several levels."""
    lake = ts.connect(str(tmp_path_factory.mktemp("places")))
    kinds: dict[str, dict[str, Any]] = {
        "vectors": {"deletion-vectors.enabled": True, "bucket": 1},
        "sums": {"merge-engine": "aggregation", "fields.v.aggregate-function": "sum", "bucket": 1},
        "plain": {"sequence.field": "v", "bucket": 2, "write-only": True},
    }
    collected = []
    for name, options in kinds.items():
        t = lake.create_table(f"d.{name}", schema=COLUMNS, primary_key=["k"], options=options)
        for start in (0, 2, 4):
            t.write([{"k": start + i, "v": start, "s": f"a{i}"} for i in range(4)])
        if name != "sums":
            t.delete("k = 3")
        collected.append(t)
    return collected


def rows(t: ts.Table) -> Any:
    actual = sorted(t.scan().to_arrow().to_pylist(), key=str)
    return actual, t.scan().count(), [t.get({"k": k}) for k in (2, 3, 5)]


KEYS = sorted({*BY_KEY, *OTHERS})


@pytest.mark.large
@pytest.mark.parametrize("kind", [0, 1, 2])
@pytest.mark.sample(1, all=1)
def test_no_option_of_one_use_changes_rows(tables: list[ts.Table], kind: int) -> None:
    t = tables[kind]
    before, wrong, tried = rows(t), [], 0
    for key in KEYS:
        for value in samples(key) if not OF_READS.match(key) else []:
            try:
                seen = rows(t.with_options({key: value}))
            except TablestoreError:
                continue
            tried += 1
            wrong += [(key, value)] if seen != before else []
    assert wrong == []
    assert tried > 100


def test_what_rows_rely_on_is_not_set_for_one_use(tables: list[ts.Table]) -> None:
    keys = [key for key in KEYS if Place.SCAN not in places_of(key)]
    assert len(keys) > 30
    for key in keys:
        require_not_for_one_use(tables[0], key)


def require_not_for_one_use(t: ts.Table, key: str) -> None:
    """Whatever value the option gets; but that which it has."""
    for value in samples(key):
        field = BY_KEY.get(key)
        if value == "append-only":  # not with a primary key, in whatever place
            continue
        if field is None or getattr(t.store.options, field.name) != field.metadata["parse"](value):
            with pytest.raises(InvalidOption, match=re.escape(repr(key))) as e:
                t.with_options({key: value})
            assert ("alter(ts.set_options(" in str(e.value)) == (places_of(key) is STORED), key
    if key in t.options:
        assert t.with_options({key: t.options[key]}).scan().count() == t.scan().count(), key


def test_nonsense_is_refused_wherever_it_is_given(tables: list[ts.Table]) -> None:
    lake = ts.connect(str(Path(tables[1].location).parents[1]))
    for key, field in BY_KEY.items():
        if key == "bucket-key":
            continue
        try:
            field.metadata["strict"]("nonsense!")
        except ValueError:
            require_refused(lake, tables[1], key)
        else:
            assert (
                field.metadata["parse"] in (str, str.lower) or "tuple" in str(field.type) or key in _FREE
            ), key


def require_refused(lake: ts.Lake, t: ts.Table, key: str) -> None:
    """No nonsense in a new table, nor in one that is there, nor for one use of it."""
    given = {key: "nonsense!"}
    attempts: tuple[Callable[[], Any], ...] = (
        lambda: lake.create_table("d.none", schema=COLUMNS, primary_key=["k"], options=given),
        lambda: t.alter(ts.set_options(given)),
        lambda: t.with_options(given),
    )
    for attempt in attempts:
        with pytest.raises(InvalidOption, match=re.escape(key)):
            attempt()
    assert key not in t.refresh().options or key in t.options, key


_FREE = ("data-file.prefix", "changelog-file.prefix", "data-file.path-directory")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("bucket", "100000000"),
        ("file.compression.zstd-level", "999"),
        ("manifest.compression", "snappy"),
        ("metadata.stats-mode", "truncate(0)"),
        ("metadata.stats-mode.per.level", "0:most"),
        ("scan.mode", "newest"),
        ("tag.automatic-creation", "always"),
        ("tag.creation-period", "weekly"),
        ("tag.period-formatter", "plain"),
        ("sink.process-time-zone", "Mars/Olympus"),
        ("sort-engine", "bubble"),
        ("compaction.small-file-ratio", "nan"),
        ("snapshot.num-retained.min", "0"),
    ],
)
def test_values_that_nobody_can_use_are_refused(tables: list[ts.Table], key: str, value: str) -> None:
    lake = ts.connect(str(Path(tables[1].location).parents[1]))
    with pytest.raises(InvalidOption, match=re.escape(key)):
        lake.create_table("d.none", schema=COLUMNS, primary_key=["k"], options={key: value})
    with pytest.raises(InvalidOption, match=re.escape(key)):
        tables[1].alter(ts.set_options({key: value}))
    assert "d.none" not in lake


def test_a_value_that_another_engine_stored_does_not_stop_reads_and_can_be_altered(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    t = lake.create_table("d.t", schema=COLUMNS, primary_key=["k"])
    t.write([{"k": 1, "v": 1, "s": "a"}])
    odd = t.store.schema.with_options({"tag.automatic-creation": "sometimes"})
    t.store.schemas.commit(type(odd)(**{**vars_of(odd), "id": odd.id + 1}))
    table = lake.table("d.t")
    assert table.options["tag.automatic-creation"] == "sometimes"
    assert table.scan().count() == 1
    assert table.alter(ts.reset_options("tag.automatic-creation")).write([{"k": 2, "v": 2, "s": "b"}])


def vars_of(schema: Any) -> dict[str, Any]:
    return {f.name: getattr(schema, f.name) for f in fields(schema) if f.init}


def test_options_of_one_use_stay_with_what_comes_from_the_table(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    t = lake.create_table("d.t", schema=COLUMNS, primary_key=["k"], options={"write-only": True})
    t.write([{"k": 1, "v": 1, "s": "a"}])
    t.branches.create("b")
    used = t.with_options({"tablestore.scan.threads": 3, "write-only": False})
    again = used.with_options({"branch": "b"})
    for derived in (
        used.branch("b"),
        again,
        used.refresh(),
        used.at(snapshot=1),
        used.branch("b").branch("main"),
    ):
        assert derived.store.options.scan_threads == 3
        assert not derived.store.options.write_only
    changed = used.alter(ts.set_options({"tablestore.scan.threads": 2}))
    assert (changed.store.options.scan_threads, changed.store.options.write_only) == (2, False)
    assert lake.table("d.t").store.options.write_only


def test_a_table_describes_where_its_options_may_be_set(tables: list[ts.Table]) -> None:
    places = {r["option"]: r["places"] for r in tables[0].options.describe().to_pylist()}
    assert places["bucket"] == "create, alter"
    assert places["merge-engine"] == "create"
    assert places["branch"] == "scan"
    assert places["scan.mode"] == "create, alter, scan"
    assert set(places) == {fact.name for fact in describe()}
    assert all(places_of(key) for key in names())
    assert all(places_of(key) is Place.CREATE for key in FIXED_WITH_DATA)
