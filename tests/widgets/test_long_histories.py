"""Long histories: a first picture that reads little, moments by parts, pages that name what they hold.

24 snapshots a round and 6 buckets, at most 10,000 × 1,000: `--rounds 420` is the whole size.
"""

from pathlib import Path

import pytest

import tablestore as ts
import widgets
from tablestore.insight.inspect.commits import CommitSums
from tests.widgets.histories import long_table
from widgets.history import moments as moments_module
from widgets.history.moments import Moments, moments_of
from widgets.workbench import widget as workbench_module

SNAPSHOTS, BUCKETS, PATIENCE = 10_000, 1_000, 1_200


@pytest.fixture(scope="module")
def long(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> ts.Table:
    rounds = request.config.option.rounds
    snapshots, buckets = min(24 * max(rounds, 5), SNAPSHOTS), min(6 * max(rounds, 5), BUCKETS)
    return long_table(tmp_path_factory.mktemp("long"), snapshots=snapshots, buckets=buckets)


@pytest.fixture(autouse=True)
def small(long: ts.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bounds that the table exceeds as ten thousand snapshots exceed ours."""
    many = long.inspect.snapshot_count()
    monkeypatch.setattr(moments_module, "WINDOW", many // 4)
    for module in (moments_module, workbench_module):
        monkeypatch.setattr(module, "SOON", many // 10)


def names(actual: object) -> list[str]:
    return sorted(actual["file_name"].to_pylist())


def test_the_first_picture_reads_the_newest_snapshots_alone(
    long: ts.Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int | None] = []
    read = CommitSums.table

    def spied(self: CommitSums, newest: int | None = None) -> object:
        asked.append(newest)
        return read(self, newest)

    monkeypatch.setattr(CommitSums, "table", spied)
    source = ts.open(long.location)
    many = source.inspect.snapshot_count()
    bench = widgets.Workbench(source)
    assert asked == [many // 10]
    assert (len(bench.timeline.model), bench.timeline.model.unread) == (many // 10, many - many // 10)
    assert bench.timeline.frame["subtitle"].endswith(f"reading {many - many // 10:,} older ones …")
    assert (bench.levels.edits, list(bench.parts)) == (b"", [*bench.parts][:4])
    bench.wait(PATIENCE)
    assert None in asked
    assert (len(bench.timeline.model), bench.timeline.model.unread) == (many, 0)
    assert bench.levels.edits
    assert "health" in bench.parts
    bench.close()


def test_the_part_at_hand_is_around_the_moment_that_is_looked_at(long: ts.Table) -> None:
    many = long.inspect.snapshot_count()
    bench = widgets.Workbench(long).wait(PATIENCE)
    held, levels = moments_of(long), bench.levels
    width = many // 4
    assert (held.history.first, held.history.last) == (many - width + 1, many)
    assert levels.frame["subtitle"].endswith(f"moments #{many - width + 1} – #{many} of {many:,}")
    for at in (many // 2, 3, many):
        sent = levels.edits
        bench.timeline.snapshot = at
        assert names(bench.state().files) == names(long.inspect.levels(at))
        levels.wait(PATIENCE)
        assert held.history.covers(at)
        assert len(held.history.edits) <= len(long.inspect.edits())
        assert levels.edits != sent
        assert names(bench.state().files) == names(long.inspect.levels(at))
        assert levels.frame["subtitle"].endswith(held.window)
        last = held.history.last
        bench.timeline.snapshot = max(at - 2, 1)  # inside: nothing is read
        assert (held.history.last, levels.wait(PATIENCE).frame.get("error")) == (last, None)
    bench.close()


def test_a_page_names_the_part_that_it_holds(long: ts.Table, tmp_path: Path) -> None:
    many = long.inspect.snapshot_count()
    bench = widgets.Workbench(long).wait(PATIENCE)
    page = bench.to_html(tmp_path / "page.html")
    words = f"Levels in this file: moments #{many - many // 4 + 1} – #{many} of {many:,}; a kernel shows"
    assert words in page.read_text(encoding="utf-8")
    assert page.stat().st_size < 10e6
    bench.close()


def test_a_part_with_too_many_files_is_a_shorter_one(long: ts.Table, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = Moments(long).read()
    monkeypatch.setattr(moments_module, "MOST", len(whole) - 1)
    less = Moments(long).read()
    assert (less.last, len(less) < len(whole)) == (whole.last, True)
    assert less.first > whole.first


def test_commits_go_on_in_the_part_of_the_newest(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options = {"bucket": 1, "write-only": True, "snapshot.num-retained.min": 1000}
    table = ts.connect(tmp_path).create_table(
        "d.t", schema={"k": ts.BIGINT}, primary_key=["k"], options=options
    )
    for n in range(14):
        table.write({"k": [n, n + 50]})
    monkeypatch.setattr(moments_module, "WINDOW", 12)
    levels = widgets.LsmLevels(table).read_history()
    base = levels.edits
    table.write({"k": [3, 7]})
    levels.refresh()
    assert (levels.edits is base, len(levels.tail) > 0) == (True, True)
    for n in range(4):
        table.write({"k": [n]})
        levels.refresh()
    assert levels.edits is not base
    assert len(moments_of(table).history.edits) >= 12


@pytest.mark.large
def test_few_buckets_hold_a_long_history_too(tmp_path: Path) -> None:
    table = long_table(tmp_path, snapshots=200, buckets=1)
    assert table.inspect.snapshot_count() >= 200
