"""Small commits reach their buckets in key order; their files are those of rows that came as written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import tablestore as ts
from tablestore.write import table_write

COLUMNS = {
    "_ARRIVAL": ts.INT,
    "k": ts.BIGINT,
    "p": ts.INT,
    "t": ts.STRING,
    "d": ts.DOUBLE,
    "n": ts.INT,
    "v": ts.STRING,
}
AGGREGATION = {"merge-engine": "aggregation", "fields.n.aggregate-function": "sum", "ignore-delete": True}
CASES: list[tuple[list[str], dict[str, Any]]] = [
    (["k", "p"], {"changelog-producer": "input"}),
    (["t", "k", "p"], {"changelog-producer": "input"}),
    (["p", "d"], {"changelog-producer": "input"}),
    (["p", "d"], {"sequence.field": "n"}),
    (["k", "p"], AGGREGATION),
    (["t", "k", "p"], {"merge-engine": "first-row", "ignore-delete": True}),
    (["k", "p"], {"write-buffer-size": "4 kb"}),
]


def changes(rng: np.random.Generator) -> pa.Table:
    rows = int(rng.integers(1, 300))
    keys = rng.integers(-40, 40, rows)
    doubles = rng.choice([-0.0, 0.0, np.nan, -1.5, 2.5], rows)
    kinds = rng.choice(["+I", "+U", "-D"], rows, p=[0.6, 0.2, 0.2])
    texts = rng.choice(["", "ä", "a", "zebra crossing", "\U0001f600"], rows)
    return pa.table(
        {
            "k": keys,
            "p": (keys % 3).astype(np.int32),
            "t": texts,
            "d": doubles,
            "n": pa.array(rng.integers(0, 9, rows), pa.int32(), mask=rng.random(rows) < 0.2),
            "v": [f"value {n}" for n in rng.integers(0, 1 << 40, rows)],
            "kind": kinds,
        }
    )


@pytest.mark.parametrize(("key", "options"), CASES)
@pytest.mark.sample(3)
def test_sorting_a_batch_before_it_is_cut_changes_no_byte(
    tmp_path: Path,
    seeds: range,
    monkeypatch: pytest.MonkeyPatch,
    key: list[str],
    options: dict[str, Any],
) -> None:
    for seed in seeds[::2]:
        collected = []
        for most in (1 << 16, 0):
            monkeypatch.setattr(table_write, "_MAX_SORTED_ROWS", most)
            table = ts.connect(str(tmp_path / f"{seed}-{most}")).create_table(
                "db.t",
                schema=COLUMNS,
                primary_key=key,
                partition_by=["p"],
                options={"bucket": 3, "write-only": True, **options},
            )
            rng = np.random.default_rng(seed)
            for _ in range(2):
                with table.writer() as w:
                    for _ in range(int(rng.integers(1, 4))):
                        w.write(changes(rng), row_kind_column="kind")
            assert table.check() == []
            collected.append(contents(Path(table.location)))
        assert collected[0] == collected[1] != {}, f"seed {seed}"


def contents(folder: Path) -> dict[str, list[bytes]]:
    """The bytes of every data and changelog file, by bucket."""
    stored: dict[str, list[bytes]] = {}
    for file in sorted(folder.rglob("*.parquet"), key=lambda f: f.read_bytes()):
        place = f"{file.parent.relative_to(folder)} {file.name.partition('-')[0]}"
        stored.setdefault(place, []).append(file.read_bytes())
    return stored
