"""The command line of the simulator: text cases that a person can read, and what it refuses."""

from __future__ import annotations

import io
import shlex
from pathlib import Path

import pytest

from tablestore.insight.simulator.__main__ import TextBar, main
from tests import text_cases
from tests.faults import SimEnv

CASES = sorted((Path(__file__).parent / "cases").glob("*.txt"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: p.stem)
def test_text_case(path: Path, rewrite: bool, capsys: pytest.CaptureFixture[str]) -> None:
    def outcome(lines: list[str]) -> str:
        (command,) = lines
        assert main(shlex.split(command)) == 0
        return capsys.readouterr().out.rstrip("\n")

    text_cases.check(path, outcome, rewrite=rewrite)


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--option trigger", "KEY=VALUE"),
        ("--option num-sorted-run.compaction-trigger=few", "num-sorted-run.compaction-trigger"),
        ("--updates 0.5", "leave updates out"),
        ("--flushes 0", "at least 1"),
        ("--buckets 0", "at least 1"),
        ("--samples -1", "samples -1 must be at least 0"),
        ("--option num-levels=1", "'num-levels' is 1; it must be at least 2"),
        ("--option num-sorted-run.compaction-triger=3", "did you mean 'num-sorted-run.compaction-trigger'"),
        (
            "--strategy leveled --option tablestore.compaction.leveled.max-bytes-for-level-multiplier=0",
            "level-multiplier' is 0; it must be at least 1",
        ),
    ],
)
def test_what_cannot_be_simulated_is_said_in_one_line(
    asked: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(shlex.split(asked)) == 2
    error = capsys.readouterr().err
    assert said in error
    assert error.count("\n") == 1


class Terminal(io.StringIO):
    """Text that claims to be one."""

    def isatty(self) -> bool:
        return True


def test_a_bar_comes_after_a_while_and_goes_away() -> None:
    env, out, pipe = SimEnv(), Terminal(), io.StringIO()
    bar, silent = TextBar(out, env), TextBar(pipe, env)
    for done in (0, 100, 200):
        bar.show(done, 800)
        silent.show(done, 800)
        env.sleep(1)
        assert (out.getvalue() != "") == (done == 200)
    assert out.getvalue() == "\r[######                  ] 200 of 800 flushes, 6 s left"
    bar.end()
    silent.end()
    *_, last, rest = out.getvalue().split("\r")
    assert (last.strip(), rest, pipe.getvalue()) == ("", "", "")


def test_an_interrupted_run_says_how_far_it_came(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def stop(self: TextBar, done: int, whole: int) -> None:
        self.reached = done
        if done >= 50:
            raise KeyboardInterrupt

    monkeypatch.setattr(TextBar, "show", stop)
    assert main(["--flushes", "1000", "--rows", "10"]) == 130
    assert capsys.readouterr() == ("", "interrupted after 50 of 1,000 flushes\n")
