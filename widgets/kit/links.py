"""Traits that several widgets share: whichever of them changes, all of its group take the value.

    timeline.snapshot = 7  →  levels.snapshot, controls.snapshot … are 7, also by way of others

Invariants: once no thread changes a shared trait, all of its group have one value, that of the last change.
One thread at a time gives a group its values; a change from another thread meanwhile is left to it. Safe: no
lock is held while a widget takes a value, so it may hold its own.
"""

import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import traitlets

LINKING = threading.RLock()
"""Guards who shares with whom, and the waves there are. One thread may take it again: a widget that is
collected as garbage meanwhile leaves its group."""
_WAVES: list["_Wave"] = []


class Shared:
    """What a widget shares: by trait, the `Shared` of its neighbours."""

    def __init__(self, owner: traitlets.HasTraits) -> None:
        self.owner = owner
        self.beside: dict[str, tuple[Shared, ...]] = {}

    def join(self, other: "Shared", name: str) -> None:
        """Share the trait; the value of this side holds, unless only the other has any."""
        with LINKING:
            for side, two in ((self, other), (other, self)):
                beside = side.beside.get(name, ())
                if not beside:
                    side.owner.observe(side.changed, name)
                side.beside[name] = (*beside, two)
        holds = getattr(self.owner, name) or not getattr(other.owner, name)
        (self if holds else other).spread(name)

    def part(self, other: "Shared") -> None:
        """Share nothing more with the other; both keep their values."""
        with LINKING:
            for side, two in ((self, other), (other, self)):
                for name, beside in tuple(side.beside.items()):
                    side.beside[name] = tuple(each for each in beside if each is not two)
                    if not side.beside[name]:
                        del side.beside[name]
                        side.owner.unobserve(side.changed, name)

    def group(self, name: str) -> list["Shared"]:
        """This one and all that have its value, the nearest first."""
        reached = [self]
        for each in reached:
            reached += [beside for beside in each.beside.get(name, ()) if beside not in reached]
        return reached

    def changed(self, change: Any) -> None:
        self.spread(change.name)

    def spread(self, name: str) -> None:
        """Give the group the value that the trait has here. Raises what a widget raises that refuses it."""
        with LINKING:
            wave = next((each for each in _WAVES if each.name == name and self in each.group()), None)
            if wave is not None:
                wave.hear(self)
                return
            _WAVES.append(wave := _Wave(self, name))
        wave.run()


class _Wave:
    """One thread that gives a group its values, until nothing has changed meanwhile."""

    def __init__(self, first: Shared, name: str) -> None:
        self.name, self._first, self._thread = name, first, threading.get_ident()
        self._changed, self._corrected = deque([first]), set[int]()
        self._value: object = None

    def group(self) -> list[Shared]:
        """All that it gives values to, as they are joined now."""
        return self._first.group(self.name)

    def hear(self, shared: Shared) -> None:
        """Note a change. A widget that takes another value than it was given is heard once, so that two that
        disagree come to an end."""
        if self._thread == threading.get_ident():
            if getattr(shared.owner, self.name) == self._value or id(shared) in self._corrected:
                return
            self._corrected.add(id(shared))
        self._changed.append(shared)

    def run(self) -> None:
        """Go on until no change is left; the first error is raised when the others have their values."""
        refused: Exception | None = None
        try:
            while (shared := self._next()) is not None:
                refused = self._give(shared) or refused
        finally:
            with LINKING:
                if self in _WAVES:  # the kernel was interrupted
                    _WAVES.remove(self)
        if refused is not None:
            raise refused

    def _give(self, shared: Shared) -> Exception | None:
        """Give the group the value of this one, as long as there is no newer one; what refused it."""
        self._value = value = getattr(shared.owner, self.name)
        refused: Exception | None = None
        for each in shared.group(self.name):
            if self._changed:
                break
            try:
                if getattr(each.owner, self.name) != value:
                    setattr(each.owner, self.name, value)
            except Exception as error:
                refused = error
        return refused

    def _next(self) -> Shared | None:
        """The next that has changed; without any the wave is over, before another thread can change one."""
        with LINKING:
            if self._changed:
                return self._changed.popleft()
            _WAVES.remove(self)
            return None


class Settling:
    """One thread at a time sets the traits of a view that name one moment; another waits. True for the thread
    that does: what its own settings call for is done already. At the end `agree` is called, which looks
    whether a linked view has gone elsewhere meanwhile."""

    def __init__(self, agree: Callable[[], None]) -> None:
        self._alone, self._agree = threading.RLock(), agree
        self._thread, self._depth = 0, 0

    def __bool__(self) -> bool:
        return self._thread == threading.get_ident()

    def __enter__(self) -> None:
        self._alone.acquire()
        self._thread, self._depth = threading.get_ident(), self._depth + 1

    def __exit__(self, error: object, *_more: object) -> None:
        self._depth -= 1
        if over := not self._depth:
            self._thread = 0
        self._alone.release()
        if over and error is None:
            self._agree()
