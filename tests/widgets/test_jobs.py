"""The one runner of jobs in the background: refuses or replaces, stops at once, keeps what was raised."""

from __future__ import annotations

import threading

import pytest

from widgets.kit.jobs import JobRunner, ViewJob


def test_a_second_start_is_refused_while_a_job_runs() -> None:
    runner, release, order = JobRunner("test"), threading.Event(), []
    started = runner.start(
        lambda _job: release.wait(240),
        before=lambda: order.append("before"),
        after=lambda: order.append("after"),
    )
    assert (started, runner.start(lambda _job: None), runner.busy) == (True, False, True)
    release.set()
    runner.wait(240)
    assert order == ["before", "after"]
    assert runner.start(lambda _job: None)


def test_a_restart_stops_the_job_there_is_and_takes_its_place() -> None:
    runner, jobs = JobRunner("test"), []

    def first(job: ViewJob) -> None:
        jobs.append(job)
        job.sleep(60)
        raise AssertionError("the sleep is over")

    assert not runner.restart(first, patience=0.01)
    assert runner.restart(lambda _job: None, patience=60)
    assert jobs[0].stopped
    assert runner.replaced(jobs[0])
    runner.wait(240)


def test_what_a_job_raises_is_raised_once_by_wait() -> None:
    runner = JobRunner("test")
    runner.start(lambda _job: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        runner.wait(240)
    runner.wait(240)


def test_a_stopped_job_ends_quietly() -> None:
    runner = JobRunner("test")
    runner.start(lambda job: job.sleep(60))
    with pytest.raises(TimeoutError, match="test still runs after"):
        runner.wait(0.01)
    runner.stop()
    runner.wait(240)
    assert not runner.busy
