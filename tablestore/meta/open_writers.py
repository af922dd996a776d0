"""Open writers: the signs of life of those whose files no snapshot names yet (FORMAT.md 25.12).

A writer that is open for longer than FIRST_MS leaves a small file in `tablestore/writers`, and renews it
while it lives; one that commits sooner leaves none. `remove_orphans` keeps the files that are newer than the
start of the oldest open writer. A sign that nobody renews counts no more once it is older than it says, so a
killed writer holds nothing for long. Times are those of the table's store: the age of a sign says how long
its writer was open before, so clocks may differ. One thread a process renews all signs. Losing a sign is no
error: a commit looks whether its files are there.
"""

from __future__ import annotations

import json
import logging
import threading
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from tablestore.core.errors import NotFound, TablestoreError
from tablestore.io.paths import join
from tablestore.meta.store import Store, remove_made_anew

log = logging.getLogger(__name__)
FIRST_MS = 30_000
"""How long a writer is open before it leaves a sign; `remove_orphans` spares younger files anyway."""
RENEWAL_MS = 60_000
LASTS_MS = 600_000
"""For how long a sign counts that is not renewed."""
HANDED_OVER_MS = 86_400_000
"""The same for the files of a writer that has ended and whose messages an engine commits later."""
_TICK_SECONDS = 10
_COARSE_MS = 2_000  # stores that keep times of files in whole seconds


@dataclass(frozen=True, slots=True)
class OpenWriter:
    """A writer that is open, by its sign. `since_ms`: its files are not older, by the store's clock."""

    host: str
    process: int
    since_ms: int

    def __str__(self) -> str:
        return f"process {self.process} on {self.host}"


@dataclass(frozen=True, slots=True)
class Sign:
    """The file of a writer; `writer` is None once it counts no more."""

    path: str
    size: int
    modified_ms: int
    writer: OpenWriter | None


class SignOfLife:
    """The sign of one writer, from now until `end`. Safe to share between threads; of one process."""

    def __init__(self, store: Store) -> None:
        self._store, self._started = store, store.env.monotonic()
        self._process, self._next_ms = store.env.process(), FIRST_MS
        self._path: str | None = None
        self._over, self._lock = False, threading.Lock()
        _PULSE.follow(self)

    @property
    def _open_ms(self) -> int:
        return int((self._store.env.monotonic() - self._started) * 1000)

    def renew(self) -> None:
        """Write the sign if it is due; errors are logged."""
        if self._open_ms < self._next_ms or self._store.env.process() != self._process:
            return
        with self._lock:
            if not self._over and self._open_ms >= self._next_ms:
                self._next_ms = self._open_ms + RENEWAL_MS
                self._leave(LASTS_MS)

    def end(self, *, handed_over: bool = False) -> None:
        """Remove the sign if there is one; with `handed_over` it stays for a day, in which an engine
        commits."""
        _PULSE.forget(self)
        with self._lock:
            if self._over or self._path is None:
                self._over = True
                return
            self._over = True
            if handed_over:
                self._leave(HANDED_OVER_MS)
            else:
                self._remove(self._path)

    def _leave(self, lasts_ms: int) -> None:
        store = self._store
        path = self._path or join(store.paths.writers_dir, f"writer-{store.env.uuid()}.json")
        body = {
            "host": store.env.host(),
            "process": self._process,
            "openMs": self._open_ms,
            "lastsMs": lasts_ms,
        }
        try:
            store.require_same()
            first, self._path = self._path is None, path
            store.io.replace(path, json.dumps(body).encode())
            if first:
                self._clear()
            store.require_same()
        except NotFound:  # dropped, renamed or made anew: the commit will say so
            self._over = True
            if self._path is not None:
                self._remove(self._path)
                remove_made_anew(store.io, store.paths.root)
        except (TablestoreError, OSError) as e:
            log.warning("no sign of an open writer in %s: %s", path, e)

    def _clear(self) -> None:
        """Remove the signs that count no more, so that those that were handed over do not pile up."""
        now, folder = self._store.env.now_ms(), self._store.paths.writers_dir
        for status in self._store.io.list(folder):
            if not status.is_dir and now - status.modified_ms > HANDED_OVER_MS:
                self._remove(join(folder, status.name))

    def _remove(self, path: str) -> None:
        try:
            self._store.io.delete(path)
        except (TablestoreError, OSError) as e:
            log.warning("the sign of a writer that has ended stays for a while, %s: %s", path, e)


@contextmanager
def writing(store: Store, *, handed_over: bool = False) -> Iterator[SignOfLife]:
    """A context in which files are written that no snapshot names yet. `handed_over`: an engine commits them
    afterwards."""
    sign = SignOfLife(store)
    try:
        yield sign
    except BaseException:
        sign.end()
        raise
    sign.end(handed_over=handed_over)


class _Pulse:
    """Renews the signs of this process; its thread is there while writers are."""

    def __init__(self) -> None:
        self._signs: weakref.WeakSet[SignOfLife] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def follow(self, sign: SignOfLife) -> None:
        with self._lock:
            self._signs.add(sign)
            if self._thread is None or not self._thread.is_alive():  # a fork has no threads
                self._thread = threading.Thread(target=self._run, name="tablestore-signs", daemon=True)
                self._thread.start()

    def forget(self, sign: SignOfLife) -> None:
        with self._lock:
            self._signs.discard(sign)

    def beat(self) -> bool:
        """Renew what is due; False if there is none left."""
        with self._lock:
            signs = list(self._signs)
            if not signs:
                self._thread = None
        for sign in signs:
            sign.renew()
        return bool(signs)

    def _run(self) -> None:
        pause = threading.Event()
        while not pause.wait(_TICK_SECONDS) and self.beat():
            pass


_PULSE = _Pulse()


def signs(store: Store) -> list[Sign]:
    """The signs of a table's writers, those that count no more included. One that cannot be read counts as
    that of a writer whose files may be of any age, until it is old."""
    writer_signs = []
    for status in store.io.list(store.paths.writers_dir):
        if not status.is_dir:
            path = join(store.paths.writers_dir, status.name)
            writer = _writer(store, path, status.modified_ms)
            writer_signs.append(Sign(path, status.size, status.modified_ms, writer))
    return writer_signs


def _writer(store: Store, path: str, modified_ms: int) -> OpenWriter | None:
    age = store.env.now_ms() - modified_ms
    try:
        body = json.loads(store.io.read(path))
        opened, lasts = int(body["openMs"]), int(body["lastsMs"])
        writer = OpenWriter(str(body["host"]), int(body["process"]), modified_ms - opened - _COARSE_MS)
    except FileNotFoundError:
        return None  # it has ended
    except (ValueError, KeyError, TypeError, OverflowError, RecursionError):
        writer, lasts = OpenWriter(f"an unreadable sign, {path}", 0, 0), LASTS_MS
    return writer if age <= min(lasts, HANDED_OVER_MS) else None


def sparing(age_ms: int, writers: Sequence[OpenWriter], now_ms: int) -> int:
    """The age, `age_ms` or more, of which no file of an open writer is."""
    return max([age_ms, *(now_ms - w.since_ms for w in writers)])
