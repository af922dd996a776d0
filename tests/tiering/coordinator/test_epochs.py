"""Epochs on the disk: they grow over restarts, kills and several coordinators."""

from __future__ import annotations

from pathlib import Path

import pytest

from tablestore.core.errors import TablestoreError
from tablestore.io.fileio import LocalFileIO
from tablestore.tiering.coordinator.files import FileEpochs
from tests.faults import FaultyIO, Killed


def test_epochs_grow_over_starts(tmp_path: Path):
    first = FileEpochs(LocalFileIO(), str(tmp_path))
    assert (first.coordinator, first.next(7), first.next(7), first.next(8)) == (1, 1, 2, 1)
    second = FileEpochs(LocalFileIO(), str(tmp_path))
    assert (second.coordinator, second.next(7), second.next(9)) == (2, 3, 1)


def test_two_coordinators_never_give_out_the_same_epoch(tmp_path: Path):
    both = [FileEpochs(LocalFileIO(), str(tmp_path)) for _ in range(2)]
    given = [each.next(7) for _ in range(10) for each in both]
    assert len(set(given)) == 20
    assert FileEpochs(LocalFileIO(), str(tmp_path)).next(7) == 21


def test_old_files_go_but_for_a_few(tmp_path: Path):
    epochs = FileEpochs(LocalFileIO(), str(tmp_path))
    for _ in range(100):
        epochs.next(7)
    assert len(list((tmp_path / "tables" / "7").iterdir())) == 8
    epochs.drop(7)
    assert not (tmp_path / "tables" / "7").exists()


@pytest.mark.parametrize("mode", ["error before", "error after", "kill before", "kill after"])
def test_whatever_operation_fails_no_epoch_comes_twice(tmp_path: Path, mode: str):
    seen: list[tuple[int, int]] = []
    for fail_at in range(1, 40):
        io = FaultyIO(fail_at, mode)
        try:
            epochs = FileEpochs(io, str(tmp_path))
            for _ in range(3):
                seen.append((epochs.coordinator, epochs.next(7)))
        except (TablestoreError, OSError, Killed):
            continue
    tables = [epoch for _, epoch in seen]
    assert len(tables) > 30
    assert tables == sorted(set(tables))
    assert [c for c, _ in seen] == sorted(c for c, _ in seen)
