"""Write results and committables as bytes of a version, without pickle: a number and parts.

| bytes | |
|---|---|
| 8 | number, big endian |
| 4 | how many parts there are |
| 4 each | length of a part |
| … | the parts, one behind the other |
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from tablestore.core.errors import InvalidRequest

T = TypeVar("T")
VERSION = 1


@dataclass(frozen=True, slots=True)
class BytesSerializer(Generic[T]):
    """Serializes values that are a number and byte strings. `what` names them in errors."""

    what: str
    parts_of: Callable[[T], tuple[int, tuple[bytes, ...]]]
    value_of: Callable[[int, tuple[bytes, ...]], T]

    @property
    def version(self) -> int:
        """The version that is written."""
        return VERSION

    def serialize(self, value: T) -> bytes:
        """The bytes of a value."""
        number, parts = self.parts_of(value)
        lengths = struct.pack(f">qI{len(parts)}I", number, len(parts), *map(len, parts))
        return lengths + b"".join(parts)

    def deserialize(self, version: int, data: bytes) -> T:
        """The value of `serialize`; raises InvalidRequest for another version or damaged bytes."""
        if version != VERSION:
            raise InvalidRequest(f"{self.what} of version {version}; version {VERSION} is known")
        try:
            number, count = struct.unpack_from(">qI", data)
            lengths = struct.unpack_from(f">{count}I", data, 12)
        except struct.error:
            raise InvalidRequest(f"damaged {self.what}: {len(data)} bytes") from None
        at, parts = 12 + 4 * count, []
        for length in lengths:
            parts.append(data[at : at + length])
            at += length
        if at != len(data):
            raise InvalidRequest(f"damaged {self.what}: {len(data)} bytes, {at} expected")
        return self.value_of(number, tuple(parts))
