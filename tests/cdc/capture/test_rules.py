"""The rules of captures: which tables, into which, with which columns, and what is refused before anything
is made."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tablestore.cdc.capture.names import SourceName
from tablestore.cdc.capture.rules import CaptureRules, TypeMapping
from tablestore.cdc.capture.source import ShapeColumn, TableShape
from tablestore.core.errors import InvalidRequest, NotFound, TablestoreError
from tablestore.format.types import arrow_types as t
from tablestore.format.types.data_type import DataType
from tablestore.io.paths import checked_name

ORDERS = SourceName("shop", "orders")


def shape(key: tuple[str, ...] = ("id",), /, **columns: DataType | tuple[DataType, str]) -> TableShape:
    pairs = {"id": t.INT.not_null(), **columns}
    actual = [ShapeColumn(n, *(c if isinstance(c, tuple) else (c,))) for n, c in pairs.items()]
    return TableShape(tuple(actual), key)


def rules(tables: Any = "shop.*", **given: Any) -> CaptureRules:
    return CaptureRules.of(tables, **{"into": "ods", **given})


def types(actual: Any) -> dict[str, str]:
    return {name: str(kind) for name, kind in actual.types.items()}


@pytest.mark.parametrize(
    ("given", "target"),
    [
        ({}, "ods.orders"),
        ({"into": ""}, "shop.orders"),
        ({"prefix": "o_", "suffix": "_v1"}, "ods.o_orders_v1"),
        ({"into": "lake.all"}, "lake.all"),
        ({"into": "", "suffix": "2"}, "shop.orders2"),
    ],
)
def test_targets(given: dict[str, Any], target: str) -> None:
    assert pickle.loads(pickle.dumps(rules(**given))).target(ORDERS) == target


def test_shadow_tables_are_left_out_unless_they_are_named_in_full() -> None:
    shadow = SourceName("shop", "_orders_gho")
    assert not rules().captures(shadow)
    assert rules("shop.*, shop._orders_gho").captures(shadow)
    assert rules(exclude="*.tmp_*").captures(ORDERS)
    assert not rules(exclude="*.tmp_*").captures(SourceName("shop", "tmp_1"))
    assert rules("orders", database="shop").captures(ORDERS)


@given(st.text(max_size=20), st.text(max_size=20))
def test_a_hostile_name_is_a_name_or_refused(database: str, table: str) -> None:
    try:
        target = rules("*.*", into="").target(SourceName(database, table))
    except InvalidRequest:
        return
    assert target == f"{database}.{table}"
    assert checked_name(database, "database") == database
    assert checked_name(table, "table") == table
    assert target.count(".") == 1


@pytest.mark.parametrize(
    "name", ["../up", "a/b", "a.b", "", ".hidden", "x$files", "a`b", "a\nb", "nul\0", 'q"']
)
def test_names_that_no_table_can_have(name: str) -> None:
    with pytest.raises(InvalidRequest, match="name"):
        rules().target(SourceName("shop", name))


def test_types_are_mapped_by_the_words_of_paimon() -> None:
    given = shape(
        flag=(t.TINYINT.not_null(), "tinyint(1)"),
        small=(t.TINYINT, "tinyint(4)"),
        big=(t.DECIMAL(20, 0), "bigint(20) unsigned"),
        name=(t.VARCHAR(9), "varchar(9)"),
        text=(t.STRING, "longtext"),
    )
    plain = types(rules().target_shape(ORDERS, given))
    assert list(plain.values()) == [
        "INT NOT NULL", "TINYINT NOT NULL", "TINYINT", "DECIMAL(20, 0)", "VARCHAR(9)", "STRING",
    ]  # fmt: skip
    words = "tinyint1_to_bool, bigint-unsigned-to-bigint, char-to-string, longtext-to-bytes, to-nullable"
    mapped = types(rules(type_mapping=words).target_shape(ORDERS, given))
    assert list(mapped.values()) == ["INT NOT NULL", "BOOLEAN", "TINYINT", "BIGINT", "STRING", "BYTES"]
    text = types(rules(type_mapping=["to-string"]).target_shape(ORDERS, given))
    assert set(text.values()) == {"STRING NOT NULL", "STRING"}
    with pytest.raises(NotFound, match="did you mean tinyint1-to-bool"):
        TypeMapping.parse("tinyint1-to-boolean")


def test_computed_and_metadata_columns() -> None:
    actual = rules(
        computed={"dt": "date_format(day, yyyyMMdd)", "day": "date(at)"},
        metadata="op_ts, table_name",
        metadata_prefix="__",
        primary_keys={"shop.*": ["*", "dt"]},
        partition_by="dt",
    ).target_shape(ORDERS, shape(at=t.TIMESTAMP(0)))
    assert types(actual) == {
        "id": "INT NOT NULL",
        "at": "TIMESTAMP(0)",
        "day": "DATE",
        "dt": "STRING NOT NULL",
        "__op_ts": "TIMESTAMP(3) WITH LOCAL TIME ZONE NOT NULL",
        "__table_name": "STRING NOT NULL",
    }
    assert (actual.primary_key, actual.partition_by) == (("id", "dt"), ("dt",))


def test_the_first_pattern_that_matches_counts() -> None:
    keys = {"shop.orders": "id, at", "shop.*": "id"}
    given = shape((), at=t.DATE)
    assert rules(primary_keys=keys).target_shape(ORDERS, given).primary_key == ("id", "at")
    assert rules(primary_keys=keys).target_shape(SourceName("shop", "x"), given).primary_key == ("id",)
    only = {"shop.orders": {"y": "year(at)"}}
    assert "y" not in rules(computed=only).target_shape(SourceName("shop", "x"), shape()).types


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"computed": {"id": "year(at)"}}, "'id' is there already; choose another name"),
        ({"computed": {"y": "year(ate)"}}, "'y' = year\\(ate\\): no column 'ate'; did you mean at"),
        ({"computed": {"y": "yaer(at)"}}, "no function of computed columns 'yaer'; did you mean year"),
        ({"computed": {"y": "now()"}}, "op_ts"),
        ({"computed": {"y": "year(id, 4)"}}, "precision of year"),
        ({"computed": {"y": "year(at"}}, "no expression"),
        ({"computed": {"y": "year(at)", "shop.*": {"z": "year(at)"}}}, "for all tables, or"),
        ({"computed": {"y": "upper(z)", "z": "upper(y)"}}, "computed of each other"),
        ({"metadata": "op_time"}, "no metadata column 'op_time'"),
        ({"metadata": "op_ts", "primary_keys": ["*", "op_ts"]}, "the row would stay"),
        (
            {"metadata": "op_ts", "computed": {"d": "date(op_ts)"}, "primary_keys": ["*", "d"]},
            "primary key column 'd'",
        ),
        ({"partition_by": "at"}, "add primary_keys={'shop.orders': \\['\\*', 'at'\\]}"),
        ({"partition_by": "dt"}, "no partition column 'dt'"),
        ({"primary_keys": "nr"}, "no primary key column 'nr'"),
        ({"primary_keys": "id", "partition_by": "id"}, "partition columns only"),
        ({"schema_change": "evolves"}, "did you mean evolve"),
        ({"bad_rows": "drop"}, "no bad_rows 'drop'"),
        ({"into": "a.b", "prefix": "x"}, "prefix and suffix have no use"),
        ({"into": "a.b.c"}, "database.table"),
        ({"into": "a/b"}, "database name 'a/b'"),
        ({"tables": "orders"}, "names no database"),
    ],
)
def test_what_cannot_be_combined_is_refused_by_name(given: dict[str, Any], words: str) -> None:
    with pytest.raises(TablestoreError, match=words):
        rules(given.pop("tables", "shop.*"), **given).plan({ORDERS: shape(at=t.DATE)})


def test_a_table_without_a_key_says_what_to_add() -> None:
    with pytest.raises(InvalidRequest, match=r"primary_keys=\{'shop.orders': \[columns"):
        rules().plan({ORDERS: shape(())})
    with pytest.raises(InvalidRequest, match="no primary key"):
        rules(primary_keys="*").plan({ORDERS: shape(())})
    assert rules(primary_keys="id").source_key(ORDERS, shape(())) == ("id",)


def test_two_tables_go_into_one_only_where_shards_are_merged() -> None:
    shards = {SourceName(d, "orders"): shape() for d in ("crm_1", "crm_2")}
    with pytest.raises(
        InvalidRequest, match=r"crm_1.orders and crm_2.orders both go into ods.orders.*merge_sh"
    ):
        rules("crm_*.*").plan(shards)
    assert list(rules("crm_*.*", merge_shards=True).plan(shards)) == ["ods.orders"]
    pinned = {SourceName("shop", f"orders_{n}"): shape() for n in (1, 2)}
    assert list(rules("shop.orders_*", into="ods.orders", merge_shards=True).plan(pinned)) == ["ods.orders"]


def test_shapes_of_shards_are_united() -> None:
    shards = {
        SourceName("a", "x"): shape(
            n=t.INT.not_null(), s=t.CHAR(3), only_a=t.DATE.not_null(), d=t.DECIMAL(5, 2)
        ),
        SourceName("b", "x"): shape(s=t.VARCHAR(9), n=t.BIGINT.not_null(), d=t.INT, only_b=t.FLOAT),
    }
    (actual,) = rules("*.x", merge_shards=True).plan(shards).values()
    assert types(actual) == {
        "id": "INT NOT NULL",
        "n": "BIGINT NOT NULL",
        "s": "VARCHAR(9)",
        "only_a": "DATE",
        "d": "DECIMAL(12, 2)",
        "only_b": "FLOAT",
    }
    shards[SourceName("c", "x")] = shape(n=t.DATE)
    with pytest.raises(
        InvalidRequest, match=r"a.x and c.x cannot be one table ods.x: column 'n' is BIGINT NOT"
    ):
        rules("*.x", merge_shards=True).plan(shards)
    shards[SourceName("c", "x")] = shape(("n",), n=t.INT.not_null())
    with pytest.raises(InvalidRequest, match=r"primary key \(id\) and \(n\) differ"):
        rules("*.x", merge_shards=True).plan(shards)


@pytest.mark.parametrize(
    "given",
    [
        {"tables": 5},
        {"tables": [None]},
        {"exclude": [1]},
        {"type_mapping": [3]},
        {"primary_keys": {"shop.*": 5}},
        {"partition_by": [b"x"]},
        {"metadata": 7},
        {"computed": {"dt": 3}},
        {"computed": {"shop.*": {"dt": None}}},
        {"computed": {"": "year(at)"}},
    ],
)
def test_what_is_no_text_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(InvalidRequest, match=r"text|expression"):
        rules(given.pop("tables", "shop.*"), **given)
