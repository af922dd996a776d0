"""Ids of snapshots as rows without a gap: what the page turns positions into ids with. Pure."""

import numpy as np


def spans_of(ids: np.ndarray) -> list[list[int]]:
    """The ids as (position, id, how many) of each row of them without a gap."""
    starts = np.flatnonzero(np.diff(ids, prepend=ids[:1] - 2) != 1)
    lengths = np.diff(np.r_[starts, len(ids)])
    return [[int(at), int(ids[at]), int(many)] for at, many in zip(starts, lengths, strict=True)]
