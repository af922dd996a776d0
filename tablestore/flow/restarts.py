"""When a stream that has failed is started again, and what ended it, in words of ours.

The strategies and their settings are Flink's `restart-strategy.*`. Flink's own default has no end, this one
has. A stream's own process knows our errors, Spark's processes only their text.
"""

from __future__ import annotations

import errno
import re
from collections.abc import Iterator
from dataclasses import dataclass

from tablestore.core import errors
from tablestore.core.errors import (
    CannotMerge,
    CommitConflict,
    CommitUnknown,
    Corrupt,
    InvalidRequest,
    TablestoreError,
    Unavailable,
    Unsupported,
)

_OURS = "tablestore.core.errors."
_LASTING = (errno.EACCES, errno.EPERM, errno.EROFS, errno.ENOTDIR)  # another try meets the same
_LOST_PROCESS = (  # what Spark says where a worker or the planner of batches has died or hangs
    "failed to connect back",
    "exited unexpectedly",
    "EOFException",
    "SocketException",
    "SocketTimeoutException",
    "Connection reset",
    "Broken pipe",
)


def plain_error(name: str, error: BaseException) -> BaseException:
    """The error that ended a job, as one of ours that names the job, in one line where it is Spark's."""
    if isinstance(error, TablestoreError):
        if error.args and isinstance(error.args[0], str) and not hasattr(error, "job"):
            error.args = (f"job {name!r}: {error.args[0]}", *error.args[1:])
            error.job = name  # type: ignore[attr-defined]  # said once
        return error
    ours = _ours(error)
    if ours is not None:
        number, words = _numbered(ours[1])
        text = f"job {name!r}: {words}"
        return Unavailable(number, text) if ours[0] == "Unavailable" else InvalidRequest(text)
    text = first_line(error)[:400]
    return Unavailable(0, f"job {name!r}: {text}; the same statement under the same name goes on")


def is_transient(error: BaseException) -> bool:
    """Whether the same batch may succeed when it is done again: a server or store that is away, a disk that
    is full, a commit that another one came before, a process of Spark that died. What may not be read or
    written is not of these."""
    transient = (Unavailable, CommitConflict, CommitUnknown)
    if isinstance(error, TablestoreError):
        return isinstance(error, transient) and getattr(error, "errno", None) not in _LASTING
    ours = _ours(error)
    if ours is not None:
        return ours[0] in {kind.__name__ for kind in transient} and _numbered(ours[1])[0] not in _LASTING
    text = "\n".join(str(cause) for cause in _chain(error))
    return any(words in text for words in _LOST_PROCESS)


def raised_within(error: BaseException) -> TablestoreError | None:
    """The error of ours that a process of Spark raised, as Spark's error quotes it; None where it quotes
    none."""
    ours = next(filter(None, map(_ours, _chain(error))), None)
    if ours is None:
        return None
    kind, words = getattr(errors, ours[0], InvalidRequest), ours[1]
    if kind is Corrupt:
        path, _, problem = words.partition(": ")
        return Corrupt(path, problem)
    if kind is Unavailable:
        return Unavailable(*_numbered(words))
    if issubclass(kind, Unsupported):
        return Unsupported(words.removeprefix("not supported: "))
    if kind is CannotMerge:
        return TablestoreError(words)
    own: TablestoreError = kind(words)
    return own


def first_line(error: BaseException) -> str:
    """The first line of an error's text that is not empty, else the name of its class."""
    return next(iter(_lines(error)), type(error).__name__)


def innermost_line(error: BaseException) -> str:
    """The message of the innermost cause that a stack trace of Java in an error's text names, without its
    class; else the first line."""
    causes = [line for line in _lines(error) if line.startswith(("Caused by: ", ": "))]
    head, _, message = (
        causes[-1].removeprefix("Caused by").removeprefix(": ").partition(": ") if causes else ("",) * 3
    )
    return message or head or first_line(error)


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and its causes: the text of one of Spark lacks a cause that has no message."""
    cause: BaseException | None = error
    while cause is not None:
        yield cause
        cause = cause.__cause__


def _ours(error: BaseException) -> tuple[str, str] | None:
    """(class, words) of the error of ours in a traceback that an error quotes."""
    for line in _lines(error):
        if line.startswith(_OURS):
            kind, _, words = line.removeprefix(_OURS).partition(": ")
            return kind, words
    return None


def _numbered(words: str) -> tuple[int, str]:
    """(number, words without it) of the text of an OSError; 0 where it has none."""
    number = re.match(r"\[Errno (\d+)\] ", words)
    return (int(number[1]), words[number.end() :]) if number else (0, words)


def _lines(error: BaseException) -> list[str]:
    return [line.strip() for line in str(error).splitlines() if line.strip()]


@dataclass(frozen=True, slots=True)
class RestartStrategy:
    """At most `attempts` restarts in turn. The first comes after `first_seconds`, each later one after
    `multiplier` times as long, `longest_seconds` at most. The default gives up after a quarter of an hour."""

    attempts: int = 20
    first_seconds: float = 1.0
    longest_seconds: float = 60.0
    multiplier: float = 2.0

    def wait_before(self, attempt: int) -> float | None:
        """Seconds before an attempt, the first is 1; None after the last."""
        if attempt > self.attempts:
            return None
        if self.multiplier == 1 or self.first_seconds == 0:
            return self.first_seconds
        wait = self.first_seconds
        for _ in range(attempt - 1):
            if wait >= self.longest_seconds:
                break
            wait *= self.multiplier
        return min(wait, self.longest_seconds)


NO_RESTART = RestartStrategy(attempts=0)


_WELL_SECONDS = 3_600.0  # as Flink's reset-backoff-threshold


class Restarts:
    """The restarts of one stream. A batch that was carried out since the last failure starts the count
    anew, as does an hour without a failure: a source may have nothing new."""

    def __init__(self, strategy: RestartStrategy) -> None:
        self._strategy = strategy
        self._attempt, self._batches = 0, 0

    def wait_after(self, error: BaseException, batches: int, ran_seconds: float = 0.0) -> float | None:
        """Seconds to the next start after an error, with `batches` carried out in all, `ran_seconds` after
        the last start; None where none comes: the same batch would fail again, or it has been tried often
        enough."""
        if batches > self._batches or ran_seconds >= _WELL_SECONDS:
            self._attempt, self._batches = 0, batches
        if not is_transient(error):
            return None
        self._attempt += 1
        return self._strategy.wait_before(self._attempt)
