"""Where a file ends and the next begins, by rows and bytes only. Pure. Used by writers and the simulator.

Files end at multiples of 1,024 rows (of about as many as with Paimon), or of fewer where rows are wide.
"""

from __future__ import annotations

NEAR = 0.9  # share of the target size at which a file is full
_STEP_ROWS = 1 << 10
_STEP_BYTES = 1 << 20  # of a step, at most; more where that is an eighth of the target


def step_rows(row_bytes: float, *, target_bytes: int) -> int:
    """Rows between two places where a file may end; `row_bytes` are those of one row."""
    max_rows = max(_STEP_BYTES, target_bytes / 8) / max(row_bytes, 1.0)
    return _STEP_ROWS if max_rows >= _STEP_ROWS else 1 << max(int(max_rows).bit_length() - 1, 0)


def file_rows(row_bytes: float, *, target_bytes: int, file_bytes: float = 0.0) -> int:
    """Rows of a file at which the next one begins; `file_bytes` are those of a file without rows."""
    wanted = max(1.0, (NEAR * target_bytes - file_bytes) / row_bytes)
    step = step_rows(row_bytes, target_bytes=target_bytes)
    return -int(-wanted // step) * step
