"""IngestProgress: model, figure, worker thread, Stop and Pause."""

import itertools
import threading
from dataclasses import replace

import pytest

from widgets import IngestProgress
from widgets.ingest.figure import ingest_figure
from widgets.ingest.model import (
    HISTORY,
    MARKS,
    ChunkRange,
    IngestState,
    LogMark,
    Sample,
    sampled,
    with_chunk,
    with_mark,
)
from widgets.ingest.watermarks import ROWS, shown_marks


class StandingClock:
    """A clock that stands still until it is moved."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_chunk_read_again_counts_as_retried():
    progress = IngestState("t", chunk_count=4)
    for state in ("reading", "reading", "read", "read", "reading", "read", "committed"):
        progress = with_chunk(progress, 2, state)
    assert progress.retried == {2: 2}
    assert progress.counts == {"committed": 1, "waiting": 3}


def test_unknown_chunk_states_are_refused():
    with pytest.raises(ValueError, match="chunk state 'done'"):
        with_chunk(IngestState("t"), 0, "done")
    with pytest.raises(ValueError, match="count from 0"):
        with_chunk(IngestState("t"), -1, "read")


def test_speed_comes_from_samples_half_a_second_apart():
    progress, last = sampled(IngestState("t", rows=500), Sample(0.0, 0), 0.4)
    assert progress.speeds == ()
    progress, last = sampled(progress, last, 0.5)
    assert progress.speeds == (1000.0,)
    assert last == Sample(0.5, 500)


def test_the_history_of_speeds_is_bounded():
    progress, last = IngestState("t"), Sample()
    for at in range(3 * HISTORY):
        progress, last = sampled(progress, last, at + 1.0)
    assert len(progress.speeds) == HISTORY


def test_time_left_follows_from_speed_and_rows_to_go():
    progress = IngestState("t", "running", rows=600, total=1000, speeds=(100.0, 100.0))
    assert progress.left_s == 4.0
    assert IngestState("t", "done", rows=600, total=1000, speeds=(100.0,)).left_s is None
    assert IngestState("t", "running", rows=600).left_s is None


@pytest.mark.parametrize("width", [480, 700, 1040])
@pytest.mark.parametrize("chunks", [0, 1, 150, 600, 601, 20_000])
def test_any_number_of_chunks_can_be_drawn(width, chunks):
    progress = IngestState(
        "t", "running", rows=10, total=100, chunk_count=chunks, chunks={0: "committed"} if chunks else {}
    )
    figure = ingest_figure(progress, width=width)
    assert figure.height < 1400
    assert len(figure.body) < 120_000


def test_committed_read_and_waiting_shares_are_distinguished():
    body = ingest_figure(IngestState("t", "running", rows=680, committed=610, total=1000), width=1040).body
    assert "61 % committed" in body
    assert "7 % read, not committed" in body
    assert "32 % waiting" in body


def test_run_returns_at_once_and_wait_sees_the_end():
    release = threading.Event()
    progress = IngestProgress("lineitem", total=10)

    def job(report):
        assert release.wait(240)
        report.update(rows=10, committed=10, commit=1)

    assert progress.run(job) is progress
    assert progress.running
    release.set()
    progress.wait(240)
    assert progress.data()["state"] == "done"
    assert (progress.progress.rows, progress.progress.commits, progress.progress.commit) == (10, 1, 1)


def test_stop_works_while_the_job_runs():
    started = threading.Event()
    progress = IngestProgress("lineitem")

    def job(report):
        started.set()
        assert report.stopped.wait(240)

    progress.run(job)
    assert started.wait(240)
    progress._handle_custom_msg({"verb": "stop"}, [])
    progress.wait(240)
    assert progress.progress.state == "stopped"
    assert progress.frame["state"] == "stopped"


def test_a_paused_job_waits_and_goes_on():
    progress = IngestProgress("lineitem")
    turns, first = [], threading.Event()

    def job(report):
        for turn in itertools.count():
            if not report.proceed() or turn == 3:
                return
            turns.append(report.progress.state)
            if turn == 0:
                report.pause()
                first.set()

    progress.run(job)
    assert first.wait(240)
    with pytest.raises(TimeoutError):
        progress.wait(0.05)
    assert progress.progress.state == "paused"
    progress.resume().wait(240)
    assert len(turns) == 3
    assert progress.progress.state == "done"


def test_stop_ends_a_paused_job():
    progress, paused = IngestProgress("lineitem"), threading.Event()

    def job(report):
        report.pause()
        paused.set()
        while report.proceed():
            pass

    progress.run(job)
    assert paused.wait(240)
    progress.stop().wait(240)
    assert progress.progress.state == "stopped"


def test_an_error_is_shown_and_raised_by_wait():
    progress = IngestProgress("lineitem")

    def job(report):
        report.update(rows=7)
        raise OSError("no space left on device")

    with pytest.raises(OSError, match="no space left"):
        progress.run(job).wait(240)
    assert progress.progress.state == "failed"
    assert "no space left on device" in progress.frame["svg"]
    assert "Stopped after 7 rows" in progress.frame["svg"]
    assert "error: OSError" in repr(progress)


def test_a_second_job_must_wait_for_the_first_and_begins_afresh():
    release = threading.Event()
    progress = IngestProgress("lineitem").run(lambda report: release.wait(240))
    with pytest.raises(RuntimeError, match="under way"):
        progress.run(lambda report: None)
    release.set()
    progress.wait(240)
    progress.run(lambda report: report.update(rows=3)).wait(240)
    assert progress.progress.rows == 3


def test_frames_are_drawn_at_most_ten_times_a_second_and_the_last_news_is_never_lost():
    clock = StandingClock()
    progress = IngestProgress("lineitem", total=1000, clock=clock)
    drawn = []
    progress.observe(lambda change: drawn.append(clock.now), "frame")
    for row in range(1000):
        clock.now = 100 + row / 1000
        progress.update(rows=row + 1)
    assert len(drawn) <= 10
    assert progress.progress.rows == 1000
    progress.redraw()
    assert "1,000" in progress.frame["label"]


def test_updates_from_many_threads_lose_no_commit():
    progress = IngestProgress("lineitem")

    def report(first):
        for at in range(200):
            progress.update(commit=first + at, chunk=(first + at, "committed"))

    threads = [threading.Thread(target=report, args=(n * 200,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert progress.progress.commits == 800
    assert progress.progress.counts["committed"] == 800


def test_pauses_do_not_count_as_elapsed_time():
    clock = StandingClock()
    progress = IngestProgress("lineitem", clock=clock)
    hold, paused, go = threading.Event(), threading.Event(), threading.Event()

    def job(report):
        clock.now += 2
        report.pause()
        paused.set()
        assert go.wait(240)
        clock.now += 3
        hold.wait(240)

    progress.run(job)
    assert paused.wait(240)
    clock.now += 60
    progress.resume()
    go.set()
    hold.set()
    progress.wait(240)
    assert progress.progress.elapsed == 5


def test_the_text_form_is_one_bar_and_the_figures():
    progress = IngestProgress("lineitem", total=1000)
    progress.update(rows=500, phase="full load", commit=3)
    assert repr(progress).splitlines() == [
        "lineitem  full load  ready",
        "████████████░░░░░░░░░░░░  50 %  500 / 1,000 rows  1 commit",
    ]


def test_before_the_first_row_the_bar_says_what_happens():
    clock, planned, go = StandingClock(), threading.Event(), threading.Event()

    def job(report):
        report.update(phase="planning 12 chunks")
        planned.set()
        assert go.wait(240)
        report.update(rows=5)

    progress = IngestProgress("lineitem", clock=clock).run(job)
    assert planned.wait(240)
    clock.now += 7
    progress.update()
    assert "planning 12 chunks · no row yet · 7.0 s" in progress.figure(width=1000).body
    assert progress.text().splitlines()[-1].startswith("planning 12 chunks · no row yet · 7")
    go.set()
    assert "no row yet" not in progress.wait(240).figure(width=1000).body


def test_retry_runs_the_same_job_again_and_keeps_what_is_known_of_the_chunks():
    runs = []

    def job(report):
        runs.append(report.progress.counts["committed"])
        report.update(chunk=(0, "committed"))
        if len(runs) == 1:
            raise OSError("disk full")

    progress = IngestProgress("lineitem").describe([ChunkRange(10, 0, 9), ChunkRange(10, 10, 19)], key="id")
    with pytest.raises(OSError, match="disk full"):
        progress.run(job).wait(240)
    progress._handle_custom_msg({"verb": "retry"}, [])
    progress.wait(240)
    assert runs == [0, 0]
    assert progress.progress.state == "done"
    assert progress.progress.places == 2
    assert progress.cards == [[["id", "0 … 9"], ["rows", "10"]], [["id", "10 … 19"], ["rows", "10"]]]
    with pytest.raises(RuntimeError, match="no job to retry"):
        IngestProgress("other").retry()


def test_what_is_linked_reads_again_when_a_commit_lands_and_not_before():
    class ReadCounter:
        reads = 0

        def refresh(self):
            self.reads += 1

    follower = ReadCounter()
    progress = IngestProgress("lineitem").link(follower)
    progress.run(lambda report: report.update(rows=5)).wait(240)
    assert follower.reads == 0
    progress.run(lambda report: report.update(rows=5, commit=3)).wait(240)
    assert follower.reads == 1


def test_a_paused_job_says_whether_it_waits_already():
    progress, go = IngestProgress("lineitem"), threading.Event()

    def job(report):
        report.pause()
        assert go.wait(240)
        report.proceed()

    progress.run(job)
    while progress.progress.state != "paused":
        go.wait(0.01)
    assert "pausing" in progress.words(width=1040)["subtitle"]
    go.set()
    while not progress.progress.waits:
        threading.Event().wait(0.01)
    assert progress.words(width=1040)["subtitle"] == "paused"
    progress.stop().wait(240)
    assert progress.progress.stalls == (0,)


def test_marks_are_replaced_by_name_and_the_oldest_committed_ones_go_first():
    progress = IngestState("t")
    for at in range(MARKS):
        progress = with_mark(progress, LogMark(f"batch {at}", at, at + 1, committed=at < 3))
    progress = with_mark(progress, LogMark("batch 5", 5, 6, committed=True))
    assert [mark.name for mark in progress.marks if mark.committed] == [
        "batch 0",
        "batch 1",
        "batch 2",
        "batch 5",
    ]
    progress = with_mark(progress, LogMark("batch 99", 99))
    assert len(progress.marks) == MARKS
    assert progress.marks[0].name == "batch 1"
    shown = shown_marks(progress.marks)
    assert len(shown) == ROWS
    assert shown[-1].name == "batch 99"


def test_the_log_section_keeps_its_height_whatever_it_shows():
    empty = IngestState("t", "running", log_head=1000, log_done=0)
    full = with_mark(with_mark(empty, LogMark("chunk 1", 0, 0)), LogMark("batch 2", 200))
    heights = {ingest_figure(progress, width=960).height for progress in (empty, full)}
    assert len(heights) == 1
    assert "nothing read yet" in ingest_figure(empty, width=960).body
    assert full.lag_bytes == 1000


def test_once_the_rows_are_there_the_bar_is_the_log():
    progress = IngestState("t", "running", rows=120, committed=120, total=100, log_head=1000, log_done=250)
    progress = with_mark(progress, LogMark("batch 1", 250, 500))
    body = ingest_figure(progress, width=1040).body
    assert "25 % of the log committed" in body
    assert "25 % read, not committed" in body
    assert "100 + 20 changes" in body


def test_hostile_names_stay_text_in_every_part():
    evil = "<img src=x onerror=alert(1)>"
    progress = IngestState(evil, "failed", key=evil, facts=(ChunkRange(3, evil, evil),), error=evil)
    progress = replace(with_mark(progress, LogMark(evil, 0, 10, note=evil)), log_head=10, log_name=evil)
    body = ingest_figure(progress, width=1040).body
    assert "<img" not in body
    assert "&lt;img" in body


def test_six_hundred_chunks_stay_a_small_picture():
    chunks = dict.fromkeys(range(300), "committed") | {300: "reading", 301: "read"}
    facts = tuple(ChunkRange(400_000, n, n + 1) for n in range(600))
    progress = IngestState("t", "running", chunk_count=600, chunks=chunks, facts=facts)
    assert len(ingest_figure(progress, width=1040).body) < 50_000
    assert (
        len(ingest_figure(replace(progress, facts=facts[:4], chunk_count=4, chunks={}), width=1040).body)
        < 6_000
    )


@pytest.mark.filterwarnings("ignore:a view could not be refreshed:RuntimeWarning")
def test_a_view_that_fails_stops_neither_the_job_nor_the_other_views():
    class Broken:
        def refresh(self):
            raise ValueError("gone")

    class CountedRefresh:
        times = 0

        def refresh(self):
            self.times += 1

    progress, counted = IngestProgress("load"), CountedRefresh()
    progress.link(Broken())
    progress.link(counted)
    progress.run(lambda job: job.update(rows=1, commit=1)).wait(240)
    assert progress._over.wait(240)
    assert progress.progress.state == "done"
    assert progress.frame["state"] == "done"
    assert counted.times == 1
