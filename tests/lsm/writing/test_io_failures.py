"""Every single I/O operation of a flush with compaction fails in turn: live files stay, made ones go, and
none is left open."""

from __future__ import annotations

from pathlib import Path

import pytest

from tablestore.core.errors import TablestoreError
from tablestore.io.fileio import LocalFileIO
from tests.lsm.bucket import LiveBucket
from tests.lsm.writing.test_writer import TRIGGER, compact_now


class FailingIO(LocalFileIO):
    """Fails at the operation of a number; counts them all. Deleting works, as cleanup needs it."""

    def __init__(self, fail_at: int = -1) -> None:
        super().__init__()
        self.fail_at, self.count = fail_at, 0
        self.outputs: list[_FailingFile] = []

    def _step(self, path: str) -> None:
        self.count += 1
        if self.count - 1 == self.fail_at:
            raise OSError(5, "Input/output error", path)

    def open_input(self, path):
        self._step(path)
        return super().open_input(path)

    def open_output(self, path):
        self._step(path)
        self.outputs.append(_FailingFile(super().open_output(path), lambda: self._step(path)))
        return self.outputs[-1]


class _FailingFile:
    """An output file whose writes and close are operations too."""

    def __init__(self, file, step) -> None:
        self._file, self._step = file, step

    def write(self, data):
        self._step()
        return self._file.write(data)

    def close(self):
        if not self._file.closed:
            self._step()
        return self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)


def written_bucket(path: Path, form: str) -> LiveBucket:
    bucket = LiveBucket(str(path / "bucket-0"), {TRIGGER: "3", "file.format": form})
    bucket.write([(1, "a"), (2, "b"), (3, "c")])
    bucket.write([(2, None), (4, "d")], [3, 0])
    return bucket


def operations(path: Path, form: str, act) -> int:
    bucket = written_bucket(path, form)
    bucket.io = FailingIO()
    act(bucket)
    return bucket.io.count


def write_and_compact(bucket: LiveBucket) -> None:
    writer = bucket.writer(compact=True, changelog=True)
    writer.append(bucket.batch([(1, "A"), (5, "e")]))
    try:
        message = writer.prepare()
    except BaseException:
        writer.abort()
        raise
    assert len(message.compact_before) == 3
    bucket.commit(message)


def full_compaction(bucket: LiveBucket) -> None:
    compact_now(bucket, full=True)


@pytest.mark.parametrize("form", ["parquet", "orc", "avro"])
@pytest.mark.parametrize("act", [write_and_compact, full_compaction])
@pytest.mark.sample(2)
def test_failing_at_any_operation_leaves_live_files_only(tmp_path, act, form):
    count = operations(tmp_path / "counted", form, act)
    assert count > 3
    for n in range(count):
        bucket = written_bucket(tmp_path / str(n), form)
        rows, live = bucket.rows(), {f.file_name for f in bucket.live}
        bucket.io = FailingIO(n)
        with pytest.raises((OSError, TablestoreError)):
            act(bucket)
        assert all(output.closed for output in bucket.io.outputs), f"operation {n}"
        bucket.io = LocalFileIO()
        assert bucket.on_disk() == live, f"operation {n}"
        assert bucket.rows() == rows
        act(bucket)
        wanted = {1: "a", 3: "c", 4: "d"} | ({1: "A", 5: "e"} if act is write_and_compact else {})
        assert bucket.rows() == sorted(wanted.items())
