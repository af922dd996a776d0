"""`bench widgets` at its smallest size, so that it does not rot. No time is asserted."""

import pytest

from notebooks.bench import widgets as bench
from tests.browsing import needs_browser
from tests.lab.jupyter import Lab

pytestmark = [*needs_browser, pytest.mark.large]


def test_widgets_are_seen_and_their_state_is_small(lab: Lab) -> None:
    names = ["levels", "timeline", "explorer"]
    found = bench.measure(lab, (10,), 1, names, peer=False)
    assert list(found) == [(name, 10, bench.OURS) for name in names]
    assert all(seen.first > 0 and len(seen.changes) == 1 for seen in found.values())
    assert max(seen.state for seen in found.values()) < 25_000
    lines = bench.show(found).splitlines()
    assert [line.split()[1] for line in lines[2:]] == names


def test_unknown_widgets_are_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        bench.main(["--widgets", "levels,nothing"])
    assert "no widget ['nothing']" in capsys.readouterr().err
