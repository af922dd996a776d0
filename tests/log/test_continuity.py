"""An embedded log that lacks what the newest snapshot names, or is another one: what everybody is told."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt, NotFound, Unavailable
from tablestore.io.fileio import LocalFileIO, Sync
from tablestore.log.embedded.continuity import LogMismatch
from tablestore.log.embedded.files import LogHeader
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.log import CommitMark
from tablestore.table.log_of import log_of
from tests.log import logged
from tests.log.held import log_view
from tests.log.test_damage import KEYED, KINDS, followed, log_files, log_folder, opened

KEYS = [(k, k) for k in range(5)]


def made(path: Path, kind: str = "transactional", count: int = 5) -> Path:
    KINDS[kind].create(path)
    for k in range(count):
        opened(path).write([{"k": k, "v": k}])
    return path


def flip(path: Path, at: int) -> None:
    data = bytearray(path.read_bytes())
    data[at] ^= 4
    path.write_bytes(data)


@pytest.mark.parametrize(
    "lose",
    [lambda p: log_files(p)[-1].unlink(), lambda p: shutil.rmtree(log_folder(p))],
    ids=["newest", "folder"],
)
def test_a_missing_end_is_an_error_for_writers_and_files_go_on(
    lose: Callable[[Path], object], tmp_path: Path
) -> None:
    lose(made(tmp_path))
    for verb in (
        lambda t: t.write([{"k": 9, "v": 9}]),
        lambda t: t.compact(),
        lambda t: t.open_writer(),
        lambda t: t.rollback(snapshot=1),
    ):
        with pytest.raises(Corrupt, match=r"the newest snapshot at .* is missing.*table\.log\.repair\(\)"):
            verb(opened(tmp_path))
    actual = followed(tmp_path, "earliest")
    assert (sorted(actual.rows), actual.sources[-1]) == (KEYS, "files")
    assert any("names offsets" in v.text for v in opened(tmp_path).check())
    (finding,) = (f for f in opened(tmp_path).inspect.doctor() if f.kind == "damaged log")
    assert finding.remedy == "table.log.repair()"
    assert opened(tmp_path).mend(finding, dry_run=False, decided=True).done
    opened(tmp_path).write([{"k": 9, "v": 9}])
    assert sorted(followed(tmp_path, "earliest").rows) == [*KEYS, (9, 9)]
    assert (opened(tmp_path).check(), opened(tmp_path).scan().count()) == ([], 6)


def test_a_torn_end_costs_no_row_and_no_call(tmp_path: Path) -> None:
    file = log_files(made(tmp_path, count=4))[-1]
    file.write_bytes(file.read_bytes()[:200])
    actual = followed(tmp_path, "earliest")
    assert (sorted(actual.rows), actual.sources) == (KEYS[:4], ["log", "files"])
    opened(tmp_path).write([{"k": 4, "v": 4}])
    assert sorted(followed(tmp_path, "earliest").rows) == KEYS
    assert opened(tmp_path).check() == []


FLIPS = pytest.mark.parametrize("at", [3, 9, 40, -12], ids=["magic", "length", "header", "rows"])


@FLIPS
@pytest.mark.parametrize("kind", ["transactional", "eventual"])
@pytest.mark.sample(3)
def test_a_flipped_bit_at_the_end_is_damage(kind: str, at: int, tmp_path: Path) -> None:
    flip(log_files(made(tmp_path, kind))[-1], at)
    with pytest.raises(Corrupt, match=r"\.log: .*table\.log\.repair\(\)"):
        opened(tmp_path).write([{"k": 9, "v": 9}])
    for start in ("earliest", "latest-full"):
        if kind == "eventual":  # the log may have rows that no snapshot has
            with pytest.raises(Corrupt, match=r"\.log: .*table\.log\.repair\(\)"):
                followed(tmp_path, start)
        else:
            assert sorted(followed(tmp_path, start).rows) == KEYS
    assert log_view(opened(tmp_path)).repair() == {}
    assert sorted(followed(tmp_path, "earliest").rows) == KEYS


@FLIPS
@pytest.mark.parametrize("kind", ["transactional", "append", "eventual"])
@pytest.mark.sample(3)
def test_streams_go_around_damage_in_the_middle_by_files_and_say_so(
    kind: str, at: int, tmp_path: Path
) -> None:
    damaged = log_files(made(tmp_path, kind, count=9))[3]
    flip(damaged, at)
    actual = followed(tmp_path, "earliest")
    assert sorted(actual.rows) == [(k, k) for k in range(9)]
    assert actual.sources[0] == actual.sources[-1] == "log"
    steps = opened(tmp_path).stream(start="earliest", timeout=0.0)
    reasons = {step.reason for step in steps if step.source == "files"}
    assert reasons
    assert all(f"the log is damaged: {damaged}" in str(reason) for reason in reasons)


def test_a_flipped_bit_in_the_oldest_file_moves_no_start(tmp_path: Path) -> None:
    files = log_files(made(tmp_path))
    files[0].unlink()  # as retention does
    flip(files[1], 40)
    assert sorted(followed(tmp_path, "earliest").rows) == KEYS
    opened(tmp_path).write([{"k": 9, "v": 9}])
    assert len(followed(tmp_path, "latest-full").rows) == 6


def test_rows_that_the_log_alone_had_are_missed(tmp_path: Path) -> None:
    made(tmp_path, "tiered")
    log_view(opened(tmp_path)).finish()
    opened(tmp_path).write([{"k": 9, "v": 9}])
    log_files(tmp_path)[-1].unlink()
    for verb in (
        lambda: opened(tmp_path).write([{"k": 8, "v": 8}]),
        lambda: opened(tmp_path).scan(log=True).count(),
        lambda: followed(tmp_path, "latest-full"),
    ):
        with pytest.raises(Corrupt, match="it is missing, and rows that were in it are in no snapshot"):
            verb()
    log_view(opened(tmp_path)).repair()
    opened(tmp_path).write([{"k": 8, "v": 8}])
    assert sorted(followed(tmp_path, "latest-full").rows) == [*KEYS, (8, 8)]


@pytest.mark.parametrize("kind", ["tiered", "eventual"])
def test_rows_are_missed_that_went_before_any_file_had_one(kind: str, tmp_path: Path) -> None:
    KINDS[kind].create(tmp_path)
    for k in range(3):
        rows_in_the_log_alone(tmp_path, k)
    log_files(tmp_path)[0].unlink()
    assert any("rows between are missing" in v.text for v in opened(tmp_path).check())
    for verb in (
        lambda: opened(tmp_path).scan(log=True).count(),
        lambda: followed(tmp_path, "earliest"),
        lambda: followed(tmp_path, "latest-full"),
    ):
        with pytest.raises((Corrupt, NotFound), match=r"rows between.*repair\(\)"):
            verb()
    log_view(opened(tmp_path)).repair()
    rows_in_the_log_alone(tmp_path, 9)
    assert sorted(followed(tmp_path, "earliest").rows) == [*KEYS[1:3], (9, 9)]
    assert opened(tmp_path).check() == []


def rows_in_the_log_alone(path: Path, k: int) -> None:
    """A writer is killed before files have its row."""
    table = opened(path)
    log = log_of(table.store)
    assert log is not None
    appender = log.appender()
    logged.into(appender, table, [("+I", k, k)])
    if table.options.get("log.consistency") == "eventual":
        appender.flush()
    else:
        appender.commit(CommitMark("killed", k))


def test_a_file_of_another_table_is_named(tmp_path: Path) -> None:
    made(tmp_path / "a")
    shutil.copy(log_files(made(tmp_path / "b"))[2], log_files(tmp_path / "a")[2])
    (by_files,) = (s for s in opened(tmp_path / "a").stream(start="earliest", timeout=0.0) if s.reason)
    assert f"{3:020}.log: it is of the log of another table" in str(by_files.reason)
    assert sorted(followed(tmp_path / "a", "earliest").rows) == KEYS


def test_the_log_of_a_copy_that_went_its_own_way_is_named(tmp_path: Path) -> None:
    made(tmp_path / "a", count=3)
    shutil.copytree(tmp_path / "a", tmp_path / "b")
    for path in (tmp_path / "a", tmp_path / "b"):
        opened(path).write([{"k": 7, "v": ord(path.name)}])
    shutil.rmtree(log_folder(tmp_path / "a"))
    shutil.copytree(log_folder(tmp_path / "b"), log_folder(tmp_path / "a"))
    for verb in (lambda t: t.write([{"k": 9, "v": 9}]), lambda t: list(t.stream(timeout=0.0))):
        with pytest.raises(LogMismatch, match="is not the one that the newest snapshot has"):
            verb(opened(tmp_path / "a"))
    assert any("not the one at" in v.text for v in opened(tmp_path / "a").check())
    log_view(opened(tmp_path / "a")).repair()
    assert (7, ord("a")) in followed(tmp_path / "a", "earliest").rows
    opened(tmp_path / "a").write([{"k": 9, "v": 9}])
    assert opened(tmp_path / "a").check() == []


def test_a_log_of_an_older_version_still_opens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files without the table, snapshots without a transaction."""
    with monkeypatch.context() as patch:
        patch.setattr("tablestore.log.embedded.files.LogTransaction.id", property(lambda self: None))
        patch.setattr("tablestore.log.embedded.appender.LogHeader", lambda *parts: LogHeader(*parts[:-1]))
        made(tmp_path)
    latest = opened(tmp_path).store.snapshots.latest()
    assert latest is not None
    assert "tablestore.log-transaction" not in (latest.properties or {})
    opened(tmp_path).write([{"k": 9, "v": 9}])
    assert len(followed(tmp_path, "earliest").rows) == 6
    assert opened(tmp_path).check() == []


@pytest.mark.parametrize("keep", [-30, 100], ids=["rows", "header"])
def test_a_torn_end_says_which_rows_the_log_alone_had(keep: int, tmp_path: Path) -> None:
    KEYED.with_options({"tablestore.tiering.enabled": "true", "bucket": 1}).create(tmp_path)
    opened(tmp_path).write([{"k": 1, "v": 1}])
    log_view(opened(tmp_path)).finish()
    opened(tmp_path).write([{"k": k, "v": k} for k in (7, 8, 9)])
    file = log_files(tmp_path)[-1]
    file.write_bytes(file.read_bytes()[:keep])
    said = (
        "3 rows that no snapshot has, offsets 1 to 3 of bucket 0, are lost" if keep < 0 else "no longer says"
    )
    (violation,) = opened(tmp_path).check()
    (finding,) = (f for f in opened(tmp_path).inspect.doctor() if f.kind == "damaged log")
    for text in (violation.text, str(finding)):
        assert said in text
    assert violation.text.endswith("; table.log.repair() goes on with what the files of the table have")
    assert log_view(opened(tmp_path)).repair() == ({0: 3} if keep < 0 else {})
    assert (opened(tmp_path).check(), log_view(opened(tmp_path)).repair()) == ([], {})
    opened(tmp_path).write([{"k": 2, "v": 2}])
    assert sorted(followed(tmp_path, "latest-full").rows) == [(1, 1), (2, 2)]


@pytest.mark.parametrize("kind", ["transactional", "tiered"])
def test_a_missing_oldest_file_is_not_taken_for_retention(kind: str, tmp_path: Path) -> None:
    made(tmp_path, kind)
    log_view(opened(tmp_path)).finish()
    for file in log_files(tmp_path)[:2]:
        file.unlink()
    assert sorted(followed(tmp_path, "earliest").rows) == KEYS
    (violation,) = opened(tmp_path).check()
    assert "files of the numbers 1 to 2 are missing, which retention has not removed" in violation.text
    assert "damaged log" in opened(tmp_path).inspect.doctor().kinds
    assert log_view(opened(tmp_path)).repair() == {}
    assert opened(tmp_path).check() == []


def test_files_that_retention_removed_are_not_missed(tmp_path: Path) -> None:
    KEYED.with_options({"tablestore.log.retention-bytes": 1, "bucket": 1}).create(tmp_path)
    for k in range(4):
        opened(tmp_path).write([{"k": k, "v": k}])
    table = opened(tmp_path)
    log = table._handle.log
    assert isinstance(log, EmbeddedLog)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tablestore.log.embedded.roll_up.SETTLED_MS", -1_000)
        assert log.expire({0: 4}) > 0
    assert len(log_files(tmp_path)) < 4
    assert (opened(tmp_path).check(), log_view(opened(tmp_path)).repair()) == ([], {})
    assert opened(tmp_path).check() == []


def test_nothing_expires_where_the_new_start_cannot_be_written_down(tmp_path: Path) -> None:
    class NoStartDisk(LocalFileIO):
        def replace(self, path: str, data: bytes, *, after: Sync | None = None) -> None:
            if path.endswith("/START"):
                raise Unavailable(28, f"{path}: No space left on device")
            super().replace(path, data, after=after)

    KEYED.with_options({"tablestore.log.retention-bytes": 1, "bucket": 1}).create(tmp_path)
    for k in range(4):
        opened(tmp_path).write([{"k": k, "v": k}])
    log = ts.connect(str(tmp_path), io=NoStartDisk()).table("d.t")._handle.log
    assert isinstance(log, EmbeddedLog)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("tablestore.log.embedded.roll_up.SETTLED_MS", -1_000)
        assert log.expire({0: 4}) == 0
    assert (len(log_files(tmp_path)), opened(tmp_path).check()) == (4, [])


def test_damage_in_the_middle_beside_what_a_killed_writer_left_is_mended(tmp_path: Path) -> None:
    made(tmp_path, "eventual")
    damaged = log_files(tmp_path)[2]
    damaged.write_bytes(damaged.read_bytes()[:100])
    left = log_folder(tmp_path) / ".00000000000000000006.log.1.tmp"
    left.write_bytes(b"TSLOG")
    os.utime(left, (0, 0))
    assert {v.invariant for v in opened(tmp_path).check()} == {"I14"}
    assert opened(tmp_path).mend(dry_run=False).remaining == ()
    assert opened(tmp_path).check() == []
    opened(tmp_path).write([{"k": 9, "v": 9}])
    assert opened(tmp_path).check() == []
