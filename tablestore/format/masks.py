"""Arrow columns as numpy: values, and where there are any."""

from __future__ import annotations

import numpy as np
import pyarrow as pa


def filled(array: pa.Array) -> np.ndarray:
    """The values, 0 for NULL."""
    if array.null_count:
        array = array.fill_null(pa.scalar(0, array.type))
    return array.to_numpy(zero_copy_only=False)


def valid_mask(array: pa.Array) -> np.ndarray:
    """A bool a row: whether it has a value."""
    return array.is_valid().to_numpy(zero_copy_only=False)


def null_mask(array: pa.Array) -> np.ndarray | None:
    """A bool a row: whether it is NULL; None where none is."""
    return array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
