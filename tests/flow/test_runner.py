"""The one place that chooses what runs a stream, and several streams as one."""

from __future__ import annotations

import pytest

import tablestore as ts
from tablestore import doors
from tablestore.cli.running import running
from tablestore.core.errors import MissingPackage, Unavailable
from tablestore.flow.runner import LocalRunner, SparkRunner, StreamsTogether, runner_of


def test_a_runner_is_chosen_by_name():
    assert runner_of("local", processes=3) == LocalRunner(3)
    session = object()
    assert runner_of("spark", spark=session) == SparkRunner(session)
    with pytest.raises(ts.NotFound, match="did you mean spark"):
        runner_of("sparc")


@pytest.mark.parametrize(
    "error",
    [
        MissingPackage("Spark session", "pyspark is missing"),
        ts.NotFound("no Java: none in PATH"),
        ts.InvalidRequest("java is Java 8"),
    ],
    ids=["package", "java", "old"],
)
def test_where_spark_is_missing_the_engine_without_it_is_named(
    error: ts.TablestoreError, monkeypatch: pytest.MonkeyPatch
):
    said = str(error)

    def missing(app: str, **how: object) -> None:
        raise error

    monkeypatch.setattr(doors, "spark_session", missing)
    with pytest.raises(type(error)) as raised:
        runner_of("spark")
    assert str(raised.value) == f'{said}; or choose engine="local", which needs neither Spark nor Java'


def test_without_java_a_capture_names_the_engine_that_needs_none(tmp_path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(ts.NotFound, match=r'no Java: none in PATH; .*engine="local"'):
        runner_of("spark")
    with pytest.raises(ts.NotFound, match=r"no Java: none in PATH; .*choose --engine local"):
        running("cdc", "spark", None).__enter__()


class Played:
    """A stream that ends after so many looks, by an error or none."""

    def __init__(self, looks: int, error: BaseException | None = None) -> None:
        self._looks, self._ends_with = looks, error
        self.error: BaseException | None = None
        self.heard: list[str] = []

    @property
    def running(self) -> bool:
        return self._looks > 0 and "stop" not in self.heard

    def pause(self) -> None:
        self.heard.append("pause")

    def resume(self) -> None:
        self.heard.append("resume")

    def stop(self) -> None:
        self.heard.append("stop")

    def wait(self, seconds: float | None = None) -> bool:
        self._looks -= 1
        if self._looks <= 0:
            self.error = self._ends_with
        return not self.running

    def failure(self) -> BaseException | None:
        return self.error

    def quiet_seconds(self) -> float:
        return float(self._looks)


def test_they_have_ended_when_all_have():
    streams = [Played(1), Played(4), Played(2)]
    together = StreamsTogether(streams)
    assert together.running
    assert together.quiet_seconds() == 4
    assert together.wait(0.5) is False
    assert together.wait() is True
    assert not together.running
    assert together.failure() is None
    assert [stream.heard for stream in streams] == [[], [], []]


def test_one_that_fails_stops_the_others():
    error = Unavailable(0, "the store is away")
    streams = [Played(100), Played(2, error)]
    together = StreamsTogether(streams)
    assert together.wait() is True
    assert together.failure() is error
    assert streams[0].heard == ["stop"]


def test_all_listeners_hear_the_same():
    streams = [Played(3), Played(3)]
    together = StreamsTogether(streams)
    together.pause()
    together.resume()
    together.stop()
    assert [stream.heard for stream in streams] == [["pause", "resume", "stop"]] * 2
    assert together.wait() is True


def test_where_one_does_not_start_none_is_left_running():
    started = Played(3)

    def refused() -> Played:
        raise Unavailable(0, "no server")

    with pytest.raises(Unavailable, match="no server"):
        StreamsTogether.started([lambda: started, refused])
    assert started.heard == ["stop"]
