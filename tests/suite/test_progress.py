"""What a run says while it goes on."""

from __future__ import annotations

import pytest

from tests.suite.progress import SuiteProgress


class Reporter:
    isatty = False

    def __init__(self) -> None:
        self.lines: list[str] = []

    def write_line(self, text: str, **_: object) -> None:
        self.lines.append(text)


def test_the_time_left_follows_the_measured_seconds_and_the_pace() -> None:
    seconds = {"a.py": 600.0, "b.py": 1200.0}
    now = [0.0]
    reporter = Reporter()
    progress = SuiteProgress(reporter, seconds.__getitem__, processes=2, clock=lambda: now[0])
    progress.expect(["tests/a.py::t1", "tests/a.py::t2", "tests/b.py::t"])
    assert progress.seconds_left() == 900
    now[0] = 330.0  # two processes: 660 seconds for 300 measured ones; a tenth of 1,800 is prior
    progress.finished("tests/a.py::t1")
    assert progress.seconds_left() == pytest.approx(1500 / 2 * (660 + 180) / (300 + 180))
    assert reporter.lines == ["5:30 · 1 of 3 tests · no faults · about 21:52 left"]
