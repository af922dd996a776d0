"""No option is without effect, and none is unknown: each is read, refused by name, or ignored with a reason.

Readers are looked for in the syntax trees of the engine: a typed option is an attribute that some module
takes, an option read as text a constant that one names, `fields.<column>.<name>` the end of one.
"""

from __future__ import annotations

import ast
import csv
import re
from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, Unsupported
from tablestore.core.options import names as option_names
from tablestore.core.options import rules as option_rules
from tablestore.core.options.names import ALIASES, ENGINE_NAMES, OF_COLUMNS, READ_AS_TEXT
from tablestore.core.options.refused import (
    IGNORED,
    IGNORED_FAMILIES,
    REFUSED,
    REFUSED_FAMILIES,
    Refused,
    Stored,
)
from tablestore.core.options.table_options import TableOptions, current_names
from tablestore.core.options.values import boolean, duration_ms, integer, long, memory_size, real
from tablestore.insight.check.check import examine
from tablestore.read.supported import require_readable
from tablestore.write.supported import require_writable

ENGINE = Path(__file__).parents[2] / "tablestore"
PAIMON = Path(__file__).parents[1] / "golden" / "options" / "paimon-options.tsv"
# Of the Flink Table Store and its sources, as far as Paimon has other names for them or none.
OLD = """
change-tracking compaction.early-max.file-num compaction.max-sorted-run-num execution.checkpointing.interval
execution.runtime-mode file-index.bloom-filter.columns fields.f.aggregate-function kafka.bootstrap.servers
kafka.topic level0_file_num_compaction_trigger lock-acquire-timeout lock-check-max-sleep lock.enabled
log.changelog-mode log.consistency log.format log.key.format log.retention log.scan log.scan.remove-normalize
log.scan.timestamp-millis log.system manifest.format max_bytes_for_level_base max_bytes_for_level_multiplier
metastore pipeline.name scan.parallelism sink.parallelism sql-client.execution.result-mode
table-storage.bucket table-storage.file.format table-storage.file.root-path table-storage.log.consistency
table-storage.log.properties.bootstrap.servers table-storage.log.retention
table-storage.log.scan.startup.mode table.exec.sink.upsert-materialize universal_size_ratio
universal_max_size_amplification_percent universal_sort_run_num_compaction_trigger uri warehouse write-mode
""".split()
PARSERS = {"Boolean": boolean, "Integer": integer, "Long": long, "MemorySize": memory_size}
PARSERS |= {"Duration": duration_ms, "Double": real, "Float": real}


@cache
def paimon() -> dict[str, str]:
    """Type by name of every option of Paimon."""
    with PAIMON.open() as lines:
        return {name: kind for name, _, kind in csv.reader(lines, delimiter="\t")}


@cache
def engine() -> tuple[frozenset[str], frozenset[str]]:
    """(attributes that are taken of options, string constants) of all modules but those that list options."""
    attributes, constants = set(), set()
    for path in ENGINE.rglob("*.py"):
        if path.parent == ENGINE / "core" / "options" and path.name != "table_options.py":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Attribute) and _are_options(node.value, path.name):
                attributes.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                constants.add(node.value)
            elif isinstance(node, ast.ImportFrom) and node.module == option_names.__name__:
                actual = (getattr(option_names, alias.name) for alias in node.names)
                constants |= {value for value in actual if isinstance(value, str)}
    return frozenset(attributes), frozenset(constants)


def _are_options(value: ast.expr, module: str) -> bool:
    """Whether an expression is typed options, by its last name: `store.options`, `o`, `….parse()`."""
    last = value.func if isinstance(value, ast.Call) else value
    name = getattr(last, "attr", getattr(last, "id", ""))
    return (
        "options" in name
        or name.lstrip("_") in ("o", "allowed", "parse")
        or (module, name) == ("table_options.py", "self")
    )


def unread() -> Iterator[str]:
    attributes, constants = engine()
    yield from (f.metadata["key"] for f in fields(TableOptions) if f.name not in attributes)
    yield from (key for key in READ_AS_TEXT if key not in constants)
    ends = {name for text in constants for name in OF_COLUMNS if text.endswith(name)}
    yield from (f"fields.….{name}" for name in OF_COLUMNS if name not in ends)


@pytest.mark.large
def test_every_option_that_is_called_implemented_has_a_reader() -> None:
    assert set(unread()) == set()


@pytest.mark.parametrize("names", [sorted(paimon()), OLD], ids=["paimon", "old"])
def test_every_option_is_implemented_harmless_or_refused(names: list[str]) -> None:
    assert [name for name in names if option_rules.fate(name) is None] == []


def test_an_option_has_one_fate() -> None:
    typed = {key for f in fields(TableOptions) for key in (f.metadata["key"], *f.metadata["aliases"])}
    tables = (typed, set(READ_AS_TEXT), set(IGNORED), set(REFUSED))
    assert [a & b for i, a in enumerate(tables) for b in tables[:i] if a & b] == []
    assert {new for new, _ in ALIASES.values()} <= typed | set(IGNORED)
    prefixes = {*IGNORED_FAMILIES, *REFUSED_FAMILIES}
    assert not [p for p in prefixes if any(p != q and p.startswith(q) for q in prefixes)]


def test_reasons_are_given_and_values_of_ignored_options_are_those_of_paimon() -> None:
    assert all(f.meaning for f in option_rules.describe())
    strange = {"parquet.enable.dictionary"}  # called an Integer, though it is true or false
    for key in paimon().keys() & IGNORED.keys() - strange:
        wanted = PARSERS.get(paimon()[key], str)
        assert IGNORED[key].parse in (wanted, str) or paimon()[key] == "Enum", key


def value_of(actual: Refused) -> str:
    """A value that asks for what is refused."""
    return {"false": "true", "true": "false"}.get(actual.unless[0] if actual.unless else "", "some")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> ts.Lake:
    return ts.connect(str(tmp_path_factory.mktemp("options")))


@pytest.fixture(scope="module")
def table(lake: ts.Lake) -> ts.Table:
    created = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"])
    created.write([{"k": 1, "v": 1}])
    return created


FAMILIES = {prefix + "some": option for prefix, option in REFUSED_FAMILIES.items()}
ALL_REFUSED = sorted({**REFUSED, **FAMILIES}.items())


def test_refused_options_are_refused_by_name_wherever_they_are_given(lake: ts.Lake, table: ts.Table) -> None:
    columns = {"k": ts.INT, "v": ts.INT}
    for key, actual in ALL_REFUSED:
        asked = {key: value_of(actual)}
        with pytest.raises(Unsupported) as raised:
            lake.create_table("d.u", schema=columns, primary_key=["k"], options=asked)
        assert key in str(raised.value)
        assert actual.why in str(raised.value)
        with pytest.raises((Unsupported, InvalidOption)) as altered:  # some may never change
            table.alter(ts.set_options(asked))
        assert key in str(altered.value)
        with pytest.raises(Unsupported) as used:
            table.with_options(asked)
        assert key in str(used.value)
    assert lake.tables() == ["d.t"]
    assert table.refresh().options == table.options


def test_values_that_ask_for_nothing_are_taken(lake: ts.Lake) -> None:
    nothing = {key: option.unless[0] for key, option in REFUSED.items() if option.unless}
    t = lake.create_table("d.nothing", schema={"k": ts.INT}, primary_key=["k"], options=nothing)
    t.write([{"k": 1}])
    assert t.scan().to_arrow().to_pylist() == [{"k": 1}]
    assert examine(t.store).notes == []
    lake.drop_table("d.nothing")


def test_what_another_engine_stored_is_refused_where_it_changes_rows_else_noted(tmp_path: Path) -> None:
    lake = ts.connect(str(tmp_path))
    table = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"])
    table.write([{"k": 1, "v": 1}])
    for key, actual in ALL_REFUSED:
        schema = table.store.schema.with_options({key: value_of(actual)})
        options = TableOptions.parse(schema.options)
        assert [n for n in option_rules.notes_on(schema.options) if n.startswith(key)], key
        for require, stopping in (
            (require_readable, [Stored.READ]),
            (require_writable, [Stored.READ, Stored.WRITE]),
        ):
            if actual.stored in stopping:
                with pytest.raises(Unsupported, match=re.escape(key)):
                    require(schema, options)
            else:
                require(schema, options)
    seen = ts.Table(
        table.store.with_schema(table.store.schema.with_options({"commit.callbacks": "x.Y"})), "d.t"
    )
    assert [n for n in examine(seen.store).notes if n.startswith("commit.callbacks is ignored")]
    assert seen.check() == []
    seen.write([{"k": 1, "v": 2}])
    assert seen.scan().count() == 1


def test_harmless_options_are_taken_and_kept(lake: ts.Lake) -> None:
    values = {
        boolean: "true",
        integer: "7",
        long: "7",
        memory_size: "7 mb",
        duration_ms: "7 min",
        real: "0.7",
    }
    families = {prefix + "some": option for prefix, option in IGNORED_FAMILIES.items()}
    given = {key: values.get(option.parse, "7") for key, option in {**IGNORED, **families}.items()}
    given |= {"sort-engine": "min-heap", "snapshot.expire.execution-mode": "async"}
    given |= {"consumer.mode": "at-least-once", "variant.shredding.inferenceMode": "adaptive"}
    given |= {"manifest-sort.partition-field": "k"}
    t = lake.create_table("d.ignored", schema={"k": ts.INT}, partition_by=["k"], options=given)
    t.write([{"k": 1}])
    assert {k: v for k, v in t.options.items() if k in given} == given
    assert examine(t.store).notes == []
    lake.drop_table("d.ignored")
    with pytest.raises(InvalidOption, match=r"write\.batch-size.*whole number"):
        t.with_options({"write.batch-size": "many"})


def test_options_of_one_use_are_known_ones(table: ts.Table) -> None:
    with pytest.raises(InvalidOption, match=r"scan\.snapshot-id"):
        table.with_options({"scan.snapshot": 1})
    with pytest.raises(InvalidOption, match=r"unknown option 'my\.own'"):
        table.with_options({"my.own": 1})


def test_a_secret_in_a_refused_option_is_not_repeated(table: ts.Table) -> None:
    with pytest.raises(InvalidRequest) as e:
        table.with_options({"kafka.properties.sasl.password": "hush"})
    assert "hush" not in str(e.value)


def test_a_table_describes_its_options_in_units_people_write(lake: ts.Lake) -> None:
    given = {"target-file-size": "131072 kb", "snapshot.time-retained": "60 min", "sink.parallelism": 4}
    t = lake.create_table("d.told", schema={"k": ts.INT}, primary_key=["k"], options={**given, "my.own": "x"})
    rows = {r["option"]: r for r in t.options.describe().to_pylist()}
    stored = {r["option"]: (r["value"], r["status"]) for r in t.options.describe(set_only=True).to_pylist()}
    assert stored == {
        "bucket": ("1", "implemented"),
        "my.own": ("x", "unknown"),
        "sink.parallelism": ("4", "ignored"),
        "snapshot.time-retained": ("1 h", "implemented"),
        "tablestore.uuid": (t.options["tablestore.uuid"], "implemented"),
        "target-file-size": ("128 mb", "implemented"),
    }
    shown = {
        k: (rows[k]["value"], rows[k]["default"]) for k in ("write-buffer-size", "commit.max-retry-wait")
    }
    assert shown == {"write-buffer-size": ("256 mb",) * 2, "commit.max-retry-wait": ("10 s",) * 2}
    assert (rows["snapshot.num-retained.max"]["value"], rows["write-only"]["value"]) == ("infinite", "false")
    assert rows["tablestore.change-tracking"]["status"] == "implemented"
    assert set(ENGINE_NAMES) <= set(rows)
    lake.drop_table("d.told")


def test_old_names_of_leveled_compaction_mean_ours_where_leveled_is_chosen(lake: ts.Lake) -> None:
    level0, ours = "level0_file_num_compaction_trigger", "tablestore.compaction.leveled."
    leveled = {"tablestore.compaction.strategy": "leveled"}
    given = {level0: "7", "max_bytes_for_level_base": "2 gb", "max_bytes_for_level_multiplier": "9"}
    meant = {
        ours + "level0-file-num-trigger": "7",
        ours + "max-bytes-for-level-base": "2 gb",
        ours + "max-bytes-for-level-multiplier": "9",
    }
    assert current_names({**given, **leveled}, keyed=True) == {**meant, **leveled}
    assert current_names(given, keyed=True, stored=leveled) == meant
    assert current_names({level0: "7"}, keyed=True) == {"num-sorted-run.compaction-trigger": "7"}
    t = lake.create_table("d.leveled", schema={"k": ts.INT}, primary_key=["k"], options=leveled)
    t = t.alter(ts.set_options({level0: 3}))
    assert t.store.options.leveled_level0_trigger == 3
    assert t.with_options({level0: 5}).store.options.leveled_level0_trigger == 5
    lake.drop_table("d.leveled")


def test_options_of_keys_are_refused_where_there_is_no_key(lake: ts.Lake) -> None:
    columns, asked = {"k": ts.INT, "v": ts.INT}, {"merge-engine": "aggregation"}
    asked |= {"sequence.field": "v", "partial-update.remove-record-on-delete": "true"}
    asked |= {"record-level.expire-time": "1 h", "aggregation.remove-record-on-delete": "true"}
    plain = lake.create_table("d.plain", schema=columns, options={"merge-engine": "deduplicate"})
    for key, value in asked.items():
        with pytest.raises(InvalidOption, match=f"{re.escape(key)}.*primary key"):
            lake.create_table("d.u", schema=columns, options={key: value})
        with pytest.raises(InvalidOption, match=f"{re.escape(key)}.*(primary key|once the table)"):
            plain.alter(ts.set_options({key: value}))
    lake.drop_table("d.plain")


def test_a_branch_is_chosen_for_one_use(lake: ts.Lake, table: ts.Table) -> None:
    table.branches.create("b")
    assert table.with_options({"branch": "b"}).scan().count() == 0
    with pytest.raises(InvalidOption, match="for one call"):
        lake.create_table("d.u", schema={"k": ts.INT}, options={"branch": "b"})
    with pytest.raises(InvalidOption, match="for one call"):
        table.alter(ts.set_options({"branch": "b"}))
