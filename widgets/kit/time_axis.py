"""An axis of time: moments to x, and times of day at round seconds. Pure. Called by captures and tiering."""

from collections.abc import Callable
from dataclasses import dataclass

from widgets.kit.svg import line, text

_SECONDS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400, 7 * 86400)
_PITCH = 84  # from one time of day to the next, at least


@dataclass(frozen=True, slots=True)
class TimeAxis:
    """Time, in seconds after 1970, to x."""

    left: float
    right: float
    began: float
    until: float

    def x(self, time: float) -> float:
        """Where a moment stands; one outside stands at the end."""
        share = (time - self.began) / max(self.until - self.began, 1e-9)
        return self.left + min(max(share, 0.0), 1.0) * (self.right - self.left)

    def times(self, y: float, clock: Callable[[float], str], *, above: float) -> str:
        """Times of day in the words of `clock`, as many as fit, each below a tick that begins `above` it."""
        room = max(int((self.right - self.left) // _PITCH), 1)
        every = next((s for s in _SECONDS if (self.until - self.began) / s <= room), _SECONDS[-1])
        parts = []
        for time in range(-(-int(self.began) // every) * every, int(self.until) + 1, every):
            x = self.x(time)
            if time >= self.began and self.left + 20 <= x <= self.right - 24:
                parts.append(line(x, y - above, x, y - above + 4, stroke="line2"))
                parts.append(text(x, y, clock(time), size=11, text_anchor="middle"))
        return "".join(parts) or text(self.left, y, clock(self.began), size=11)
