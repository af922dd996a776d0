"""Peers: other implementations that tests compare with. `require` skips where one is missing."""

from __future__ import annotations

import pytest


def require(condition: object, reason: str) -> None:
    """Skip unless `condition`; `reason` starts with "needs " (so that CI fails instead of skipping)."""
    assert reason.startswith("needs "), f"a missing peer is named as 'needs …', not {reason!r}"
    if not condition:
        pytest.skip(reason)
