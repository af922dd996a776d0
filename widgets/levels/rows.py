"""The rows that a bucket keeps as long as one goes through its past, so that none moves: what it ever needed.

Pure: from the history's facts. The newest moment needs no more rows than it has files in. `local.js` does the
same. Called by the widget.
"""

import numpy as np

from widgets.history.history import History

FOLDABLE = 64
"""More levels than any table has."""


def rows_kept(
    history: History | None, place: str, snapshot: int | None, stop: int
) -> tuple[int, tuple[int, ...]]:
    """How many rows level 0 has at least (at most `stop`), and the levels that are one row where they are
    empty: all of them now, in the past those that the bucket `place` never used."""
    past = (
        history is not None and snapshot is not None and history.covers(snapshot) and snapshot != history.last
    )
    if history is None or not past:
        return 0, tuple(range(FOLDABLE))
    ids = ["{}/{}".format(*each) for each in history.places]
    at = np.flatnonzero(history.place == ids.index(place)) if place in ids else np.zeros(0, np.int64)
    level = history.ints("level")[at]
    used = set(level.tolist())
    zero = at[level == 0]
    when = np.r_[history.added[zero], history.removed[zero]]
    by = np.repeat([1, -1], len(zero))
    most = int(np.cumsum(by[np.lexsort((by, when))]).max(initial=0))  # what goes, goes before what comes
    return min(most, stop), tuple(level for level in range(FOLDABLE) if level not in used)
