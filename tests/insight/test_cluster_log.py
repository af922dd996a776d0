"""Lake tables whose log is in a Fluss cluster: what the check and the doctor say of rows that are lost, or
wait."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import Unavailable
from tablestore.fluss.admin import EARLIEST, LATEST
from tablestore.log.fluss_log import FlussLog
from tests.log.logged import to_files

COLUMNS = {"k": ts.INT, "day": ts.STRING}
CLUSTER = {
    "log.system": "fluss",
    "tablestore.fluss.bootstrap.servers": "h:1",
    "tablestore.fluss.table": "d.t",
}
DAY_MS = 86_400_000


class Logs:
    """The offsets that the cluster gives, by the number of the bucket; `young`: of the first row that is
    younger than half of the retention."""

    def __init__(
        self, start: dict[int, int], end: dict[int, int], young: dict[int, int] | None = None
    ) -> None:
        self.start, self.end, self.young = start, end, young or start
        self.moments: list[int] = []

    def offsets(self, *moments: str | int) -> list[dict[int, int]]:
        self.moments += [moment for moment in moments if isinstance(moment, int)]
        return [{EARLIEST: self.start, LATEST: self.end}.get(at, self.young) for at in moments]


def table(
    path: Path, monkeypatch: pytest.MonkeyPatch, logs: Logs, *, at: dict[int, int], keyed: bool = False
) -> ts.Table:
    """A lake table with rows of the log up to `at`."""
    monkeypatch.setattr(FlussLog, "_offsets", lambda _, *moments: logs.offsets(*moments))
    monkeypatch.setattr(FlussLog, "kept_ms", 2 * DAY_MS)
    actual = ts.connect(path).create_table(
        "d.t",
        schema={"k": ts.INT.not_null(), "day": ts.STRING.not_null()} if keyed else COLUMNS,
        primary_key=("k", "day") if keyed else None,
        partition_by=("day",),
        options={**CLUSTER, "bucket": 1 if keyed else -1},
    )
    to_files(actual, [("+I", 1, "a")], at)
    return actual


def findings(actual: ts.Table) -> list[str]:
    return [
        f"{finding.severity} {finding.kind}: {finding.what}"
        for finding in actual.inspect.doctor()
        if finding.where == "log"
    ]


def test_rows_that_retention_took_before_a_round_are_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    step = 2**20
    logs = Logs({0: 5, step: 0, 2 * step: 7}, {0: 5, step: 3, 2 * step: 9})
    actual = table(tmp_path, monkeypatch, logs, at={0: 2, step: 3, 9 * step: 4})  # the last is dropped since
    texts = [str(violation) for violation in actual.check()]
    assert len(texts) == 2
    assert "offsets [2, 5) of bucket 0 of partition 0, up to 3 rows, are gone" in texts[0]
    assert "offsets [0, 7) of bucket 0 of partition 2, up to 7 rows, are gone" in texts[1]
    assert all('lake.tier(…, lost_rows="skip")' in text for text in texts)
    assert [text.startswith("risk lost rows: offsets [") for text in findings(actual)] == [True, True]


def test_a_keyed_bucket_that_no_round_has_seen_may_begin_anywhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """It is read by a snapshot of its keys."""
    logs = Logs({0: 0, 2**20: 7}, {0: 2, 2**20: 9})
    actual = table(tmp_path, monkeypatch, logs, at={0: 2}, keyed=True)
    assert actual.check() == []
    assert findings(actual) == []


def test_rows_that_wait_for_half_of_the_retention_are_a_warning(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    logs = Logs({0: 0}, {0: 9}, young={0: 6})
    actual = table(tmp_path, monkeypatch, logs, at={0: 2})
    assert actual.check() == []
    (said,) = findings(actual)
    assert said.startswith("risk untiered rows: up to 4 rows of bucket 0 of partition 0 wait for a round")
    now = actual.store.env.now_ms()
    assert all(0.9 * DAY_MS < now - moment < 1.1 * DAY_MS for moment in logs.moments)
    logs.young = {0: 2}
    assert findings(actual) == []


def test_a_log_that_ends_before_the_lake_was_cut(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    actual = table(tmp_path, monkeypatch, Logs({0: 0}, {0: 3}), at={0: 5})
    (text,) = [str(violation) for violation in actual.check()]
    assert "the lake is at offset 5 of bucket 0 of partition 0, whose log ends at 3: it was cut" in text
    assert len(findings(actual)) == 1


def test_a_cluster_that_does_not_answer_is_no_violation(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    actual = table(tmp_path, monkeypatch, Logs({0: 0}, {0: 3}), at={0: 3})

    def unavailable(_: FlussLog, *moments: object) -> None:
        raise Unavailable("nobody is there")

    monkeypatch.setattr(FlussLog, "_offsets", unavailable)
    assert actual.check() == []
    assert findings(actual) == []
    (tried,) = [check for check in actual.inspect.doctor().tried if check.rule == "tiering"]
    assert tried.text == "the cluster was not asked: nobody is there"
