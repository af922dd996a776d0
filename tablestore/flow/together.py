"""Several streams that run and end as one."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from tablestore.flow.runner import Stream

_LOOK_SECONDS = 0.2  # in turn at each stream


class StreamsTogether:
    """Streams at work, of which one that fails stops the others. Safe to share between threads, but for
    `wait`, which is of one."""

    def __init__(self, streams: Sequence[Stream]) -> None:
        self._streams, self._left = tuple(streams), tuple(streams)
        self.error: BaseException | None = None

    @classmethod
    def started(cls, begins: Iterable[Callable[[], Stream]]) -> StreamsTogether:
        """What these start; where one does not start, none is left running."""
        streams: list[Stream] = []
        try:
            for begin in begins:
                streams.append(begin())
        except BaseException:
            cls(streams).stop()
            raise
        return cls(streams)

    @property
    def running(self) -> bool:
        """Whether one of them is still at work."""
        return any(stream.running for stream in self._streams)

    def pause(self) -> None:
        """Let no batch begin until `resume`."""
        for stream in self._streams:
            stream.pause()

    def resume(self) -> None:
        """Let batches begin again."""
        for stream in self._streams:
            stream.resume()

    def stop(self) -> None:
        """End each between two of its batches."""
        for stream in self._streams:
            stream.stop()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until all have ended, `seconds` at most; whether they have. One that fails ends the others."""
        waited = 0.0
        while self._left and (seconds is None or waited < seconds):
            waited += _LOOK_SECONDS * len(self._left)
            self._left = tuple(stream for stream in self._left if not self._has_ended(stream))
            if self.error is not None:
                self.stop()
                self._left = ()
        return not self._left

    def failure(self) -> BaseException | None:
        """What ended them."""
        return self.error

    def quiet_seconds(self) -> float:
        """That of the one of which nothing has come for longest."""
        return max((stream.quiet_seconds() for stream in self._streams if stream.running), default=0.0)

    def _has_ended(self, stream: Stream) -> bool:
        ended = stream.wait(_LOOK_SECONDS)
        if ended:
            self.error = self.error or stream.failure()
        return ended
