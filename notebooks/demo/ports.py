"""Ports of this machine for servers that live as long as their caller."""

from __future__ import annotations

import contextlib
import random
import socket

_GIVEN = set[int]()
"""What this process gave away: a server that starts may not listen yet."""


def free_port() -> int:
    """A port nobody listened on a moment ago, below those that systems give away by themselves: until the
    server has it no connection and no other program gets it by chance. A process gets each one once."""
    for port in random.SystemRandom().sample(range(15_000, 32_000), 200):
        if port in _GIVEN:
            continue
        with socket.socket() as s, contextlib.suppress(OSError):
            s.bind(("127.0.0.1", port))
            _GIVEN.add(port)
            return port
    raise OSError("no free port among 200")


def listens(port: int) -> bool:
    """Whether something accepts connections there."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1):
        return True
    return False
