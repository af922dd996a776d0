"""Several streams that run and end as one."""

from __future__ import annotations

import pytest

from tablestore.core.errors import Unavailable
from tablestore.flow.runner import StreamsTogether


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


def test_all_hear_what_one_is_told():
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
