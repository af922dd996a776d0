"""How columns look to Hive. What Java Paimon makes of the same types is compared in tests/servers."""

from __future__ import annotations

import pytest

from tablestore.catalog import metastore
from tablestore.core.errors import Unsupported
from tablestore.format.types.arrow_types import DataField, parse_type
from tests.tables import schema_of


@pytest.mark.parametrize(
    ("ours", "hive"),
    [
        ("DECIMAL(38, 18)", "decimal(38,18)"),
        ("CHAR(255)", "char(255)"),
        ("CHAR(256)", "string"),
        ("VARCHAR(65535)", "varchar(65535)"),
        ("VARCHAR(65536)", "string"),
        ("TIME(3)", "string"),
        ("TIMESTAMP(9)", "timestamp"),
        ("BINARY(3)", "binary"),
    ],
)
def test_types_have_hive_names(ours: str, hive: str) -> None:
    assert metastore.hive_type(parse_type(ours)) == hive


def test_parameters_hold_options_keys_and_what_marks_the_format() -> None:
    schema = schema_of(
        {"d": "DATE", "k": "INT"},
        primary_key=("d", "k"),
        partition_by=("d",),
        options={"bucket": "4", "hive.auto.purge": "true"},
        comment="all of it",
    )
    full = metastore.shape(schema, all_properties=True, external=False).parameters
    assert full == {
        "bucket": "4",
        "hive.auto.purge": "true",
        "primary-key": "d,k",
        "partition": "d",
        "bucket-key": "k",
        "comment": "all of it",
        "table_type": "PAIMON",
        "storage_handler": metastore.STORAGE_HANDLER,
    }
    little = metastore.shape(schema, all_properties=False, external=True).parameters
    assert little == {
        "auto.purge": "true",
        "comment": "all of it",
        "table_type": "PAIMON",
        "storage_handler": metastore.STORAGE_HANDLER,
        "EXTERNAL": "TRUE",
    }


def test_long_comments_are_cut_to_what_the_metastore_stores() -> None:
    field = DataField(0, "c", parse_type("INT"), "line\n" + "x" * 5000)
    comment = metastore.columns(schema_of({"c": field}))[0].comment
    assert comment is not None
    assert (len(comment), comment[:6], comment[-4:]) == (4000, "line x", "x...")


def test_partitions_in_the_metastore_are_refused() -> None:
    schema = schema_of({"d": "DATE"}, options={"metastore.partitioned-table": "true"})
    with pytest.raises(Unsupported, match=r"metastore\.partitioned-table"):
        metastore.shape(schema, all_properties=True, external=False)
