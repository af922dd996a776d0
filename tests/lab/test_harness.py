"""The harness itself: it opens, runs, asks the kernel, and it can fail."""

import time

import pytest

from tests.browsing import needs_browser
from tests.lab.jupyter import DARK, Lab

pytestmark = needs_browser

ASKS_OUTSIDE = "new Image().src = 'https://example.invalid/pixel.png'; 0"


@pytest.mark.large
def test_cells_run_and_the_kernel_gives_its_variables(lab: Lab) -> None:
    notebook = lab.open(["x = 20", "x += 1\nprint('x is', x)"])
    assert notebook.kernel("x") == 21
    assert notebook.kernel("{'a': (1, None)}") == {"a": [1, None]}
    assert notebook.printed() == "x is 21\n"
    notebook.restart_and_run_all()
    notebook.expect("x", 21)
    with pytest.raises(AssertionError, match="NameError"):
        notebook.kernel("y")
    lab.theme(DARK)
    notebook.check()


@pytest.mark.large
def test_a_failed_cell_and_one_that_never_ran_are_found(lab: Lab) -> None:
    notebook = lab.open(["1 / 0", "after = 1"])
    assert notebook.failures() == ["ZeroDivisionError: division by zero in: 1 / 0", "did not run: after = 1"]
    with pytest.raises(AssertionError):
        notebook.check()


@pytest.mark.parametrize(
    "script",
    [ASKS_OUTSIDE, "console.error('something broke')", "setTimeout(() => { throw new Error('late'); })"],
)
@pytest.mark.large
def test_a_page_that_asks_another_host_or_complains_is_found(lab: Lab, script: str) -> None:
    notebook = lab.open([], run=False)
    notebook.check()
    lab.page.evaluate(script)
    until = time.monotonic() + 240
    while not (lab.complaints or lab.strangers) and time.monotonic() < until:
        lab.page.wait_for_timeout(20)
    with pytest.raises(AssertionError):
        notebook.check()
