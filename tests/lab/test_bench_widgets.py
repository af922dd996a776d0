"""`bench widgets` at its smallest size, so that it does not rot. No time is asserted."""

from pathlib import Path

import pytest

from notebooks.bench import widgets as bench
from notebooks.bench.parts import playable, report
from tests.browsing import needs_browser
from tests.lab.jupyter import Lab
from tests.suite import counterparts

pytestmark = [*needs_browser, pytest.mark.large]


def test_widgets_are_seen_and_their_state_is_small(lab: Lab) -> None:
    names = ["levels", "timeline", "explorer"]
    actual = bench.measure(lab, (10,), 1, names, peer=False)
    assert list(actual) == [(name, 10, bench.OURS) for name in names]
    assert all(seen.first > 0 and len(seen.changes) == 1 for seen in actual.values())
    assert max(seen.state for seen in actual.values()) < 25_000
    lines = bench.show(actual).splitlines()
    assert [line.split()[1] for line in lines[2:]] == names


def test_unknown_widgets_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--widgets", "levels,nothing"])
    assert "no widget ['nothing']" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        bench.main(["--pages", "chess"])
    assert "no page ['chess']" in capsys.readouterr().err


def test_a_page_that_plays_is_timed_from_a_server(tmp_path: Path) -> None:
    counterparts.need("Pyodide")
    actual = playable.measure(tmp_path, ["merge", playable.OWN], 1)
    assert list(actual) == ["merge", playable.OWN]
    for page in actual.values():
        assert 0 < page.first[0] < page.playable[0]
        assert page.again[0] > 0
        assert page.processor[0] > 0
        assert page.weight < 15_000_000
    assert [line[0] for line in playable.lines(actual, report.spread)] == ["merge", playable.OWN]
