"""Processes that append to one embedded log at once, and readers that wait for them."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from pathlib import Path

from tablestore.core.env import SYSTEM
from tablestore.log.log import CommitMark
from tests.log.embedded_logs import append, content, open_log

ROOT = Path(__file__).parents[2]
WRITER = """
import sys
from pathlib import Path
from tablestore.core.env import SYSTEM
from tablestore.log.log import CommitMark
from tests.log.embedded_logs import append, open_log

log = open_log(Path(sys.argv[1]), env=SYSTEM)
for i in range(int(sys.argv[3])):
    n = int(sys.argv[2]) + 2 * i
    append(log, {n % 3 % 2: [n], 1: [n]} if n % 3 % 2 == 0 else {1: [n]}, CommitMark(sys.argv[2], i))
"""


def test_two_processes_append_at_once_and_nothing_is_lost(tmp_path: Path) -> None:
    count = 60
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(k), str(count)], cwd=ROOT)
        for k in (0, 1)
    ]
    log = open_log(tmp_path, env=SYSTEM)
    at: dict[int, int] = {}
    seen: list[int] = []
    while len(seen) < 2 * count:  # a reader follows meanwhile
        assert log.wait(at, 60)
        end = log.bounds().end
        for batch in log.read(at, end):
            assert batch.offsets[0] == at.get(batch.bucket, 0)
            at[batch.bucket] = batch.end
            if batch.bucket == 1:
                seen += batch.rows.column("id").to_pylist()
    assert [w.wait(240) for w in writers] == [0, 0]
    assert sorted(seen) == list(range(2 * count))
    for k in (0, 1):
        assert [n for n in seen if n % 2 == k] == list(range(k, 2 * count, 2))
    fresh = open_log(tmp_path, env=SYSTEM)
    actual = content(fresh)
    assert [i for _, i in actual[1]] == seen
    assert [offset for offset, _ in actual[0]] == list(range(len(actual[0])))
    marks = [t.mark for t in fresh.transactions({})]
    for k in ("0", "1"):
        assert [m.identifier for m in marks if m is not None and m.user == k] == list(range(count))


def test_a_waiting_reader_sees_an_append_soon(tmp_path: Path) -> None:
    log, writer = open_log(tmp_path, env=SYSTEM), open_log(tmp_path, env=SYSTEM)
    at = log.bounds().end
    appended: list[float] = []

    def later() -> None:
        time.sleep(0.3)
        append(writer, {0: [1]}, CommitMark("u", 1))
        appended.append(time.monotonic())

    thread = threading.Thread(target=later)
    thread.start()
    before, started = time.thread_time(), time.monotonic()
    assert log.wait(at, 240)
    seen, used = time.monotonic(), time.thread_time() - before
    thread.join()
    assert seen - appended[0] < 60, "sooner than the end of its wait"  # some milliseconds on a quiet machine
    assert used < max(0.2, (seen - started) / 2), "it sleeps between two looks"
