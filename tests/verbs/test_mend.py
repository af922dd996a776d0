"""Mending: what the doctor prescribes is carried out, one finding or all, and only what was decided."""

from __future__ import annotations

from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import InvalidRequest
from tablestore.insight.doctor.finding import MendingCall, look, python
from tests.insight.doctor.diagnoses import SMALL, TABLE, doctor, files_of, put, the


def test_calls_are_written_as_python() -> None:
    settings = MendingCall("set_options", ({"write-only": "false"},))
    full = MendingCall("compact", keywords={"full": True, "bucket": 3}, options={"a": "b"})
    assert python((full,)) == "table.with_options({'a': 'b'}).compact(full=True, bucket=3)"
    assert python((settings,)) == "table.alter(ts.set_options({'write-only': 'false'}))"
    assert python((settings, full)) == f"{python((settings,))}{python((full,)).removeprefix('table')}"
    assert python((MendingCall("reset_options", ("x", "y")),)) == "table.alter(ts.reset_options('x', 'y'))"
    assert python((MendingCall("compact_manifests"), MendingCall("tags.delete", ("v",)))) == (
        "(table.compact_manifests(), table.tags.delete('v'))"
    )
    assert python((look("table.check()"),)) == "table.check()"


def ill(path: Path) -> ts.Table:
    """Sorted runs above the trigger, deletes among them, and a setting that no merge survives."""
    t = TABLE.create(path, {"write-only": True, "num-sorted-run.stop-trigger": 2})
    for i in range(7):
        put(t, range(1 if i else 50), v=str(i))
    t.delete(ts.col("id") < 49)
    return t


def test_all_findings_are_mended_each_while_it_is_there(tmp_path: Path) -> None:
    t = ill(tmp_path)
    before = t.scan().to_arrow().sort_by("id")
    findings = doctor(t)
    assert {"sorted runs", "stop trigger", "tombstones"} <= set(findings.kinds)
    there = files_of(t)
    preview = t.mend(findings)
    assert files_of(t) == there
    assert len(preview.done) == len(findings)
    assert "option num-sorted-run.stop-trigger: 2 → 8" in preview.text
    assert "the first round; " in preview.text
    assert preview.text.endswith("nothing was changed; call again with dry_run=False")
    did = t.mend(findings, dry_run=False)
    assert did.after is not None
    assert did.after.sound, did.text
    assert did.remaining == ()
    assert len(did.done) < len(findings)  # the compaction of the runs took the deletes away, too
    assert did.text.endswith("the doctor now: sound")
    assert t.refresh().scan().to_arrow().sort_by("id") == before
    assert t.refresh().check() == []


def test_what_gives_something_up_waits_for_a_decision(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"ignore-delete": True, "write-only": True})
    for i in range(6):
        put(t, range(50), v=str(i))
    actual = the(doctor(t), "dropped deletes")
    assert "do not come back" in actual.asks
    with pytest.raises(InvalidRequest, match=r"those that were dropped .* decided=True"):
        t.mend(actual, dry_run=False)
    assert f"decide: {actual.asks}" in t.mend(actual).text
    did = t.mend(dry_run=False)
    assert [f.kind for f in did.remaining] == ["dropped deletes"]
    assert "left alone: dropped deletes · table: decide: from then on" in did.text
    assert [f.kind for f, _ in did.done] == ["sorted runs"]
    assert t.refresh().options["ignore-delete"] == "true"
    assert t.mend(dry_run=False, decided=True).after.sound
    assert "ignore-delete" not in t.refresh().options


def test_what_no_call_mends_is_refused_with_where_to_look(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path, {"bucket": 4, "bucket-key": "n"}, primary_key=["id", "n"])
    for i in range(4):
        put(t, range(i * 100, i * 100 + 1), v="x" * 5000)
    findings = doctor(t, {**SMALL, "skew": 0.5})
    skew = the(findings, "bucket skew")
    for dry_run in (True, False):
        with pytest.raises(InvalidRequest, match="look first: ts"):
            t.mend(skew, dry_run=dry_run)
    assert skew in t.mend(findings).remaining
    with pytest.raises(InvalidRequest, match="one of its findings"):
        t.mend("sorted runs")  # type: ignore[arg-type]  # what is refused


def test_the_past_is_not_mended(tmp_path: Path) -> None:
    t = ill(tmp_path)
    with pytest.raises(InvalidRequest, match="read-only"):
        t.at(snapshot=2).mend()


def test_a_sound_table_has_nothing_to_mend(tmp_path: Path) -> None:
    t = TABLE.create(tmp_path)
    put(t, range(10))
    there = files_of(t)
    assert t.mend(dry_run=False).text == "nothing to mend by itself\nthe doctor now: sound"
    assert files_of(t) == there


def test_what_the_doctor_says_fits_a_terminal(tmp_path: Path) -> None:
    t = ill(tmp_path)
    lines = doctor(t).text.splitlines()
    assert max(len(line) for line in lines[1:] if "mend:" not in line and "look:" not in line) <= 100
