"""The peer itself: rows go in and come out through pypaimon's own process."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.peers import pypaimon_env
from tests.peers.pypaimon import PeerError, PyPaimon

pytestmark = pytest.mark.peer
ROWS = pa.table({"k": pa.array([2, 1, 3], pa.int32()), "v": ["b", "a", None]})


@pytest.fixture
def peer(tmp_path: Path) -> PyPaimon:
    created = PyPaimon(tmp_path / "lake")
    created.create("shop.t", schema=ROWS.schema, primary_keys=["k"], options={"bucket": "1"})
    return created


def test_rows_written_are_read_at_each_snapshot(peer: PyPaimon):
    newer = ROWS.slice(0, 1).set_column(1, "v", [["B"]])
    assert [peer.write("shop.t", ROWS), peer.write("shop.t", newer)] == [1, 2]
    assert peer.read("shop.t").sort_by("k").to_pydict() == {"k": [1, 2, 3], "v": ["a", "B", None]}
    assert peer.read("shop.t", snapshot=1, columns=["v"]).to_pydict() == {"v": ["a", "b", None]}
    assert [snapshot["commit_kind"] for snapshot in peer.snapshots("shop.t")] == ["APPEND", "APPEND"]


def test_overwrite_leaves_only_the_new_rows(peer: PyPaimon):
    peer.write("shop.t", ROWS)
    peer.write("shop.t", ROWS.slice(1, 1), overwrite=True)
    assert peer.read("shop.t").to_pydict() == {"k": [1], "v": ["a"]}


def test_an_empty_table_has_its_columns(peer: PyPaimon):
    rows = peer.read("shop.t")
    assert (rows.num_rows, rows.column_names, peer.snapshots("shop.t")) == (0, ["k", "v"], [])
    assert peer.tables("shop") == ["t"]


def test_refusals_are_errors_and_the_process_lives_on(peer: PyPaimon):
    with pytest.raises(PeerError, match="TableNotExist"):
        peer.read("shop.absent")
    assert peer.read("shop.t").num_rows == 0


def test_an_environment_that_cannot_be_made_gives_a_reason(tmp_path: Path):
    lock = tmp_path / "bad.lock"
    lock.write_text("no-such-package-of-ours @ file:///nowhere/at-all.whl\n")
    created = pypaimon_env.make(tmp_path / "venv", lock=lock)
    assert created.path is None
    assert created.reason.startswith("needs pypaimon: ")
