"""A clock and actors that take turns: whatever runs on it is repeated by its seed.

An actor is a thread, of which one runs at a time: it goes on until it pauses, then whoever is due next does.
So code that blocks runs as it is. A killed actor hears of it when its pause ends, by `Killed`, which nothing
catches, and at whatever it tries afterwards. Events are calls at a moment, between the turns of actors.
"""

from __future__ import annotations

import heapq
import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from tests.faults import Killed

Milliseconds = int


@dataclass
class Actor:
    """A thread that waits for its turn. `wake_ms`: when that is."""

    run: Callable[[], None]
    wake_ms: Milliseconds = 0
    dead: bool = False
    error: BaseException | None = None
    turn: threading.Lock = field(default_factory=threading.Lock)
    thread: threading.Thread | None = None

    @property
    def ended(self) -> bool:
        return self.thread is not None and not self.thread.is_alive()


class Scheduler:
    """Actors and events in the order of their moments; `rng` draws all that is random in a life."""

    def __init__(self, rng: random.Random) -> None:
        self.rng, self.now_ms = rng, 0
        self._waiting: list[tuple[Milliseconds, int, Actor | Callable[[], None]]] = []
        self._number = 0
        self._current: Actor | None = None
        self._mine = threading.Lock()
        self._mine.acquire()
        self._actors: list[Actor] = []

    def start(self, run: Callable[[], None], after_ms: Milliseconds = 0) -> Actor:
        """A new actor, whose first turn is then."""
        actor = Actor(run)
        actor.turn.acquire()
        actor.thread = threading.Thread(target=self._life, args=(actor,), daemon=True)
        self._actors.append(actor)
        actor.thread.start()
        self._wake(actor, after_ms)
        return actor

    def after(self, ms: Milliseconds, call: Callable[[], None]) -> None:
        """Call something then."""
        self._push(self.now_ms + ms, call)

    def pause(self, ms: Milliseconds) -> None:
        """End the turn of the actor that runs; returns when its time has come."""
        actor = self._current
        assert actor is not None, "an actor pauses"
        if not actor.dead:
            self._wake(actor, ms)
            self._mine.release()
            actor.turn.acquire()
        if actor.dead:
            raise Killed("the service was killed")

    def stall(self, actor: Actor, ms: Milliseconds) -> None:
        """The actor does not go on before so long."""
        if not actor.dead and not actor.ended:
            self._wake(actor, max(actor.wake_ms - self.now_ms, 0) + ms)

    def kill(self, actor: Actor) -> None:
        """The actor does nothing any more."""
        if not actor.ended:
            actor.dead = True
            self._wake(actor, 0)

    def run(self, until: Callable[[], bool], limit_ms: Milliseconds) -> bool:
        """Let turns follow each other until a condition holds, which is asked between turns; False if it does
        not by then. Raises what an actor raised."""
        while self._waiting and not until():
            at, _, what = self._waiting[0]
            if at > limit_ms:
                return False
            heapq.heappop(self._waiting)
            if isinstance(what, Actor):
                if what.ended or what.wake_ms != at:
                    continue
                self.now_ms = max(self.now_ms, at)
                self._turn(what)
                if what.error is not None:
                    raise what.error
            else:
                self.now_ms = max(self.now_ms, at)
                what()
        return until()

    def close(self) -> None:
        """End all actors."""
        for actor in self._actors:
            if not actor.ended:
                actor.dead = True
                self._turn(actor)
                actor.thread.join()

    def _turn(self, actor: Actor) -> None:
        self._current = actor
        actor.turn.release()
        self._mine.acquire()
        self._current = None

    def _life(self, actor: Actor) -> None:
        actor.turn.acquire()
        try:
            if not actor.dead:
                actor.run()
        except Killed:
            pass
        except BaseException as e:
            actor.error = e
        actor.wake_ms = -1
        self._mine.release()

    def _wake(self, actor: Actor, ms: Milliseconds) -> None:
        actor.wake_ms = self.now_ms + ms
        self._push(actor.wake_ms, actor)

    def _push(self, at: Milliseconds, what: Actor | Callable[[], None]) -> None:
        self._number += 1
        heapq.heappush(self._waiting, (at, self._number, what))
