"""Messages and columns for tests of formats."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from tablestore.format.messages.messages import MessageFormat, Messages, decoded
from tablestore.format.types.data_type import DataField
from tablestore.format.types.type_text import parse_type

KINDS = ("+I", "-U", "+U", "-D")


def columns(**types: str) -> tuple[DataField, ...]:
    """Columns of these types."""
    return tuple(DataField(i, name, parse_type(t)) for i, (name, t) in enumerate(types.items()))


def messages(*values: Any) -> Messages:
    """Messages of one partition: bytes and None as they are, anything else as JSON."""
    created = [
        v if v is None or isinstance(v, bytes) else json.dumps(v, ensure_ascii=False).encode() for v in values
    ]
    keys = pa.nulls(len(created), pa.binary())
    return Messages("t", 3, np.arange(10, 10 + len(created)), keys, pa.array(created, pa.binary()))


def changes(format: MessageFormat, values: Sequence[Any], *, skip_bad: bool = False) -> list[tuple[str, Any]]:
    """(kind, row) of each change that the messages mean."""
    actual = (part for _, part in decoded(messages(*values), format, skip_bad=skip_bad))
    return [
        (KINDS[kind], row)
        for part in actual
        for kind, row in zip(part.kinds.to_pylist(), part.rows.to_pylist(), strict=True)
    ]
