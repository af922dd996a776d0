"""Tables altered by this engine, as pypaimon sees them: old rows under new columns."""

from __future__ import annotations

from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import tablestore as ts
from tests.peers.pypaimon import PyPaimon

pytestmark = pytest.mark.peer


@pytest.mark.parametrize("file_format", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("primary_key", [["k"], []], ids=["keyed", "append"])
@pytest.mark.sample(3)
def test_altered_columns_read_equal(tmp_path: Path, file_format: str, primary_key: list[str]) -> None:
    peer = PyPaimon(tmp_path)
    columns = {"k": ts.INT, "a": ts.INT, "gone": ts.STRING, "f": ts.FLOAT, "r": ts.ROW(x=ts.INT, y=ts.STRING)}
    options = {"file.format": file_format, "write-only": True}
    t = ts.connect(str(tmp_path)).create_table(
        "d.t", schema=columns, primary_key=primary_key, options=options
    )
    t.write([{"k": 1, "a": 10, "gone": "x", "f": 0.5, "r": {"x": 1, "y": "a"}}, {"k": 2, "f": 1.5}])
    t = t.alter(
        ts.rename("a", "amount"),
        ts.retype("amount", ts.BIGINT),
        ts.retype("f", ts.DOUBLE),
        ts.drop("gone"),
        ts.add("gone", ts.DATE, after="k"),
        ts.comment("gone", "another column"),
    )
    t.write([{"k": 3, "gone": date(2026, 1, 1), "amount": 2**40, "f": 2.5, "r": None}])
    seen, theirs = (rows.sort_by("k") for rows in (t.scan().to_arrow(), peer.read("d.t")))
    assert theirs.cast(seen.schema).equals(seen)
    assert isinstance(seen, pa.Table)


def test_tables_with_options_comments_and_defaults_open(tmp_path: Path) -> None:
    peer = PyPaimon(tmp_path)
    t = ts.connect(str(tmp_path)).create_table("d.t", schema={"k": ts.INT, "v": ts.INT}, primary_key=["k"])
    t = t.alter(ts.set_options({"bucket": 1, "num-levels": 7}), ts.comment(None, "said"), ts.default("v", 5))
    t.write([{"k": 1}, {"k": 2, "v": 3}])
    assert peer.read("d.t").sort_by("k").to_pydict() == {"k": [1, 2], "v": [5, 3]}
