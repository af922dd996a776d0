"""The rows of files that a merge leaves out, from the keys alone: what is left of all files is the table."""

from __future__ import annotations

import random
from collections import Counter

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.format import rowkind
from tablestore.format.data_format import FileRequest
from tablestore.format.parquet.schema import KIND
from tablestore.read.scan.data_split import chooses_rows, lost_rows
from tablestore.read.scan.file_read import read_file

OPTIONS = [
    {},
    {"sequence.field": "v"},
    {"ignore-delete": True},
    {"deletion-vectors.enabled": True},
    {"sequence.field": "v", "sequence.field.sort-order": "descending"},
]


def filled(lake: ts.Lake, by: random.Random, options: dict[str, object]) -> ts.Table:
    table = lake.create_table(
        "d.t",
        schema={"a": ts.INT, "b": ts.STRING, "v": ts.INT},
        primary_key=["a", "b"],
        options={"bucket": 2, "target-file-size": "4 kb", "write-only": by.random() < 0.5, **options},
    )
    for _ in range(by.randint(1, 6)):
        count = by.randint(1, 200)
        rows = {
            "a": [by.randrange(-20, 20) for _ in range(count)],
            "b": [by.choice(["", "x", "yy"]) for _ in range(count)],
            "v": [by.randrange(5) for _ in range(count)],
            "kind": [by.choice(["+I", "+U", "-D"] if by.random() < 0.3 else ["+I"]) for _ in range(count)],
        }
        table.write(rows, row_kind_column="kind")
        if by.random() < 0.3:
            table.compact(full=by.random() < 0.5)
    return table


def test_what_is_not_lost_is_the_table(tmp_path, seeds: tuple[int, ...]):
    for seed in seeds:
        by = random.Random(seed)
        for number, options in enumerate(OPTIONS):
            lake = ts.connect(str(tmp_path / f"{seed}-{number}"))
            table = filled(lake, by, options)
            scan = table.scan()
            collected: Counter[tuple[object, ...]] = Counter()
            for split in scan.plan().splits:
                lost = lost_rows(scan.store, split)
                parts = np.split(lost, np.cumsum([file.row_count for file in split.files]))
                assert not parts.pop().size
                for file, gone in zip(split.files, parts, strict=True):
                    request = FileRequest(["a", "b", "v"])
                    batches = read_file(scan.store, split.partition, split.bucket, file, request)
                    rows = pa.Table.from_batches(batches)
                    kept = rows.filter(pa.array(~gone))
                    assert not rowkind.retracts(kept[KIND].to_numpy()).any()
                    collected.update(zip(*(kept[c].to_pylist() for c in ("a", "b", "v")), strict=True))
            wanted = Counter(tuple(row.values()) for row in scan.to_arrow().to_pylist())
            assert collected == wanted, f"seed {seed}, {options}"


@pytest.mark.parametrize(
    ("options", "chosen"),
    [
        ({}, True),
        ({"merge-engine": "partial-update"}, False),
        ({"merge-engine": "aggregation"}, False),
        ({"merge-engine": "first-row"}, False),
        ({"scan.ignore-corrupt-files": True}, False),
    ],
)
def test_which_merges_only_choose_rows(tmp_path, options: dict[str, object], chosen: bool):
    lake = ts.connect(str(tmp_path / "lake"))
    table = lake.create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"], options=options)
    assert chooses_rows(table.store) is chosen
