"""Refresh functions: dbgen's bytes, before images, sizes, refused arguments."""

import gzip
import hashlib
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from datasets import tpch
from datasets.errors import DatasetError
from datasets.tpch.__main__ import main
from datasets.tpch.refresh_sets import order_keys, tbl, write_files
from datasets.tpch.rows import make

GOLDEN = Path(__file__).parents[1] / "golden" / "tpch"
SETS = [("0.01", n) for n in range(1, 6)] + [("0.1", n) for n in range(1, 4)] + [("1", 1)]


def md5_table() -> dict[tuple[str, str], str]:
    lines = (GOLDEN / "md5sums.tsv").read_text().splitlines()[1:]
    rows = [line.split("\t") for line in lines]
    return {(sf, file): md5 for variant, sf, file, _, _, md5 in rows if variant == "pipe-terminated"}


def base_table(scale: str, table: str) -> pa.Table:
    paths = tpch.base(scale, (table,), parts=4, progress=False)[table]
    return pa.Table.from_batches([batch for path in paths for batch in tpch.read(path)])


@pytest.mark.parametrize(("scale", "number"), SETS)
def test_files_of_a_set_equal_those_of_dbgen(scale: str, number: int, tmp_path: Path) -> None:
    written = write_files(tpch.refresh(scale, number), tmp_path)
    names = {f"orders.tbl.u{number}", f"lineitem.tbl.u{number}", f"delete.{number}"}
    assert {path.name for path in written} == names
    sums = md5_table()
    for path in written:
        content = path.read_bytes()
        assert content == gzip.decompress((GOLDEN / f"sf{scale}" / f"{path.name}.gz").read_bytes())
        assert hashlib.md5(content).hexdigest() == sums[scale, f"upd/{path.name}"]


def test_own_rows_equal_dbgens_base_tables() -> None:
    scale = tpch.Scale.of("0.01")
    index = np.arange(1, scale.orders + 1)
    rows = make(scale, index - 1, order_keys(index, 0))
    sums = md5_table()
    assert hashlib.md5(tbl(rows.orders)).hexdigest() == sums["0.01", "base/orders.tbl"]
    assert hashlib.md5(tbl(rows.lineitem)).hexdigest() == sums["0.01", "base/lineitem.tbl"]


@pytest.mark.parametrize("number", [1, 77, 999])
def test_deleted_rows_are_the_rows_of_the_base_tables(number: int) -> None:
    changes = tpch.refresh("0.01", number)
    lines, orders = base_table("0.01", "lineitem"), base_table("0.01", "orders")
    gone = lines.filter(pc.is_in(lines["l_orderkey"], changes.delete_keys))
    assert pa.table(changes.deleted_lineitem).equals(gone.combine_chunks())
    gone = orders.filter(pc.is_in(orders["o_orderkey"], changes.delete_keys))
    assert pa.table(changes.deleted_orders).equals(gone.combine_chunks())
    assert changes.deleted_orders["o_orderkey"].equals(changes.delete_keys)


def test_batches_have_the_types_of_the_base_tables() -> None:
    changes = tpch.refresh("0.01", 1)
    assert changes.lineitem.schema == tpch.LINEITEM == base_table("0.01", "lineitem").schema
    assert changes.orders.schema == tpch.ORDERS == base_table("0.01", "orders").schema
    changes.lineitem.validate(full=True)
    changes.orders.validate(full=True)


def test_no_set_inserts_or_deletes_a_key_twice() -> None:
    sets = [tpch.refresh("0.007", n) for n in range(1, 1000)]
    deleted = np.concatenate([s.delete_keys.to_numpy() for s in sets])
    assert len(np.unique(deleted)) == len(deleted) == 9990
    base = order_keys(np.arange(1, tpch.base_rows("0.007") + 1), 0)
    assert np.isin(deleted, base).all()
    inserted = np.concatenate([sets[n].orders["o_orderkey"].to_numpy() for n in (0, 1, 500, 998)])
    assert len(np.unique(inserted)) == len(inserted)
    assert not np.isin(inserted, base).any()


def test_sets_of_either_size_are_cuts_of_one_sequence() -> None:
    specified = [tpch.refresh("0.01", n, sizes="spec") for n in (1, 2)]
    created = [tpch.refresh("0.01", n) for n in (1, 2, 3)]
    assert [s.count for s in specified] == [15, 15]
    assert [s.count for s in created] == [10, 10, 10]
    for table in ("orders", "lineitem", "deleted_orders", "deleted_lineitem"):
        cut = pa.Table.from_batches([getattr(s, table) for s in specified])
        assert cut.combine_chunks().equals(
            pa.Table.from_batches([getattr(s, table) for s in created]).combine_chunks()
        )


@pytest.mark.parametrize(
    ("scale", "dbgen", "spec"),
    [
        ("0.001", 0, 1),
        ("0.006", 0, 9),
        ("0.007", 10, 10),
        ("0.02", 30, 30),
        ("0.05", 70, 75),
        (1, 1500, 1500),
    ],
)
def test_set_sizes(scale: str, dbgen: int, spec: int) -> None:
    assert tpch.refresh(scale, 1).count == dbgen
    assert tpch.refresh(scale, 1, sizes="spec").count == spec


def test_an_empty_set_has_a_delete_file_only(tmp_path: Path) -> None:
    written = write_files(tpch.refresh("0.005", 4), tmp_path)
    assert [(path.name, path.read_bytes()) for path in written] == [("delete.4", b"")]
    empty = tpch.refresh("0.005", 4)
    assert (empty.lineitem.num_rows, empty.deleted_orders.num_rows) == (0, 0)


@pytest.mark.parametrize("scale", ["0.0015", 1.5, 0, -1, "ten", "NaN", "inf", 20_000, "1001.001"])
def test_scale_factors_where_generators_disagree_are_refused(scale: object) -> None:
    with pytest.raises(DatasetError, match=r"multiple of 0\.001 below 1, or a whole number"):
        tpch.refresh(scale, 1)


@pytest.mark.parametrize("number", [0, 1000, -3, "1"])
def test_sets_beyond_999_are_refused(number: object) -> None:
    with pytest.raises(DatasetError, match="use 1 to 999"):
        tpch.refresh("0.01", number)


def test_unknown_sizes_are_refused() -> None:
    with pytest.raises(DatasetError, match='use "dbgen" or "spec"'):
        tpch.refresh("0.01", 1, sizes="large")


def test_command_writes_the_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    status = main(["refresh", "--scale-factor", "0.01", "--set", "2", "--out", str(tmp_path / "new")])
    assert status == 0
    printed = capsys.readouterr().out.split()
    assert sorted(Path(p).name for p in printed) == ["delete.2", "lineitem.tbl.u2", "orders.tbl.u2"]
    assert (
        hashlib.md5((tmp_path / "new" / "lineitem.tbl.u2").read_bytes()).hexdigest()
        == (md5_table()["0.01", "upd/lineitem.tbl.u2"])
    )


def test_command_says_what_is_wrong_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["refresh", "--scale-factor", "0.01", "--set", "1000", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().err.splitlines() == [
        "refresh set 1000: use 1 to 999; later sets delete keys that do not exist"
    ]
    assert list(tmp_path.iterdir()) == []
