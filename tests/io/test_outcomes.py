"""Changes of a store after which it is known whether they got through."""

from __future__ import annotations

from pathlib import Path

import pytest

from tablestore.core.errors import CommitUnknown, Unavailable
from tablestore.io import outcomes
from tablestore.io.fileio import Sync
from tests.faults import FaultyIO


class Silent(FaultyIO):
    """A store that fails at operation `fail_at` and answers no question afterwards."""

    def _run(self, what: str, path: str, action: object, *, writes: bool) -> object:
        if self.fail_at is not None and self.count > self.fail_at:
            raise Unavailable(5, f"{path}: no answer")
        return super()._run(what, path, action, writes=writes)


@pytest.mark.parametrize("unique", [True, False])
def test_a_write_that_got_through_before_the_error_is_a_success(tmp_path: Path, unique: bool) -> None:
    path = f"{tmp_path}/f"
    assert outcomes.put_new(FaultyIO(0, "error after"), path, b"ours", unique=unique)
    assert Path(path).read_bytes() == b"ours"


def test_a_write_that_did_not_happen_raises(tmp_path: Path) -> None:
    with pytest.raises(Unavailable):
        outcomes.put_new(FaultyIO(0, "error before"), f"{tmp_path}/f", b"ours", unique=True)
    assert list(tmp_path.iterdir()) == []


def test_a_name_taken_by_the_same_bytes_is_ours_only_if_nobody_else_writes_them(tmp_path: Path) -> None:
    path = f"{tmp_path}/f"
    Path(path).write_bytes(b"same")
    assert outcomes.put_new(FaultyIO(), path, b"same", unique=True)
    assert not outcomes.put_new(FaultyIO(), path, b"same", unique=False)
    assert not outcomes.put_new(FaultyIO(), path, b"other", unique=True)


def test_a_store_that_cannot_be_asked_leaves_the_outcome_unknown(tmp_path: Path) -> None:
    path = f"{tmp_path}/f"
    with pytest.raises(CommitUnknown, match=r"it is unknown whether .*/f was written"):
        outcomes.put_new(Silent(0, "error after"), path, b"ours", unique=True)
    with pytest.raises(CommitUnknown, match="was written"):
        outcomes.put(Silent(0, "error after"), path, b"new")
    with pytest.raises(CommitUnknown, match="was deleted"):
        outcomes.remove(Silent(0, "error after"), path)


def test_replacing_and_removing_look_whether_they_happened(tmp_path: Path) -> None:
    path = Path(tmp_path / "f")
    path.write_bytes(b"old")
    outcomes.put(FaultyIO(0, "error after"), str(path), b"new")
    assert path.read_bytes() == b"new"
    with pytest.raises(Unavailable):
        outcomes.put(FaultyIO(0, "error before"), str(path), b"newer")
    with pytest.raises(Unavailable):
        outcomes.remove(FaultyIO(0, "error before"), str(path))
    outcomes.remove(FaultyIO(0, "error after"), str(path))
    assert not path.exists()


def test_a_deletion_that_is_not_synced_is_no_refusal(tmp_path: Path) -> None:
    path = Path(tmp_path / "f")
    path.write_bytes(b"old")
    with pytest.raises(CommitUnknown, match="is deleted"):
        outcomes.remove(FaultyIO(1, "error before"), str(path), after=Sync(str(tmp_path)))
    assert not path.exists()


def test_renaming_looks_whether_it_happened(tmp_path: Path) -> None:
    path, target = Path(tmp_path / "a"), Path(tmp_path / "b")
    path.mkdir()
    with pytest.raises(Unavailable):
        outcomes.move(FaultyIO(0, "error before"), str(path), str(target))
    assert path.is_dir()
    with pytest.raises(CommitUnknown, match="was renamed"):
        outcomes.move(Silent(0, "error before"), str(path), str(target))
    outcomes.move(FaultyIO(0, "error after"), str(path), str(target))
    assert target.is_dir()
