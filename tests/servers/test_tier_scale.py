"""`./workbench bench tier_scale` on a few tables: all but one are in the lake, and that one says why."""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import pytest

import tablestore as ts
from notebooks.bench import tier_scale
from tests.servers.fluss import Fluss

pytestmark = pytest.mark.large

LINES = ("all rows: all in after ", "more rows 1: all in after ")


def lines(lake: ts.Lake, source: tier_scale.Source, failing: int = 1) -> list[str]:
    return list(tier_scale.measured(lake, source, argparse.Namespace(failing=failing, times=2)))


def test_of_many_tables_of_a_fluss_one_fails_for_ever_and_the_others_are_in_the_lake(
    fluss: Fluss, tmp_path: Path
) -> None:
    lake = ts.connect(tmp_path)
    try:
        source = tier_scale.made_in_fluss(fluss.cluster, fluss.address, lake, 12, 2, 1)
        actual = lines(lake, source)
    finally:
        fluss.admin.drop_database(tier_scale.DATABASE, ignore_if_not_exists=True, cascade=True)
    assert all(line.startswith(begin) for line, begin in zip(actual, LINES, strict=False))
    assert int(re.findall(r"(\d+) committed, median ", actual[0])[0]) >= 11
    assert "the cluster's table has no column 'other'" in actual[2]
    rows = len(tier_scale.some_rows(0, 2))
    assert {lake.table(path).scan().count() for path in source.paths[1:]} == {2 * rows}


def test_many_buckets_of_a_lake_come_into_files(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    lake = ts.connect(tmp_path)
    with tier_scale.of_lake(lake, 4, 25, 1) as source:
        actual = lines(lake, source)
    assert int(re.findall(r"(\d+) committed, median ", actual[0])[0]) >= 3
    assert "the file is missing" in actual[2]
    rows = len(tier_scale.some_rows(0, 25))
    assert {lake.table(path).scan().count() for path in source.paths[1:]} == {2 * rows}


def test_a_table_that_should_fail_and_does_not_is_noticed(tmp_path: Path) -> None:
    pytest.importorskip("google.protobuf")
    lake = ts.connect(tmp_path)
    with tier_scale.of_lake(lake, 2, 1, 0) as source, pytest.raises(SystemExit, match="should have failed"):
        lines(lake, source, failing=1)
