"""Bytes as change messages write them, by columns: base64 and hexadecimal texts → bytes, and bytes →
decimals."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from tablestore.core.errors import SchemaMismatch

_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_URL_SAFE = _STANDARD[:-2] + b"-_"
_NONE = 255


def _codes(letters: bytes) -> np.ndarray:
    """The value of each character, 255 for one that has none."""
    table = np.full(256, _NONE, np.uint8)
    table[np.frombuffer(letters, np.uint8)] = np.arange(len(letters), dtype=np.uint8)
    return table


_BASE64 = {"base64": _codes(_STANDARD), "base64-url-safe": _codes(_URL_SAFE)}
_HEX = _codes(b"0123456789abcdef")
_HEX[np.frombuffer(b"ABCDEF", np.uint8)] = np.arange(10, 16, dtype=np.uint8)


def decoded(texts: pa.Array, mode: str) -> pa.Array:
    """Texts in `base64`, `base64-url-safe` (both with padding), `hex` or `latin-1` as bytes."""
    if mode == "latin-1":
        try:
            encoded = [None if text is None else text.encode("latin-1") for text in texts.to_pylist()]
        except UnicodeEncodeError as e:
            raise SchemaMismatch(f"a text is not bytes in Latin-1: {e.object[e.start]!r}") from None
        return pa.array(encoded, pa.binary())
    data, lengths = _characters(texts)
    return _from_hex(texts, data, lengths) if mode == "hex" else _from_base64(texts, data, lengths, mode)


def _from_hex(texts: pa.Array, data: np.ndarray, lengths: np.ndarray) -> pa.Array:
    digits = _HEX[data]
    if (lengths % 2).any() or (digits == _NONE).any():
        raise SchemaMismatch("a text is not hexadecimal")
    return _binary(digits[0::2] << 4 | digits[1::2], lengths // 2, texts)


def _from_base64(texts: pa.Array, data: np.ndarray, lengths: np.ndarray, mode: str) -> pa.Array:
    if (lengths % 4).any():
        raise SchemaMismatch(f"a text is not {mode}: its length is no multiple of 4")
    padding = data == ord("=")
    ends = np.cumsum(lengths)[lengths > 0] - 1
    allowed = np.zeros(len(data), bool)
    allowed[ends] = True
    allowed[ends - 1] = padding[ends]
    values = np.where(padding & allowed, 0, _BASE64[mode][data])
    if (values == _NONE).any():
        raise SchemaMismatch(f"a text is not {mode}")
    quads = values.reshape(-1, 4).astype(np.uint32)
    joined = quads[:, 0] << 18 | quads[:, 1] << 12 | quads[:, 2] << 6 | quads[:, 3]
    triples = np.stack([joined >> 16, joined >> 8, joined], axis=1).astype(np.uint8).reshape(-1)
    pads = padding.reshape(-1, 4).sum(axis=1)  # the last bytes of a group that stand for nothing
    kept = np.ones(len(triples), bool).reshape(-1, 3)
    kept[pads >= 1, 2] = False
    kept[pads == 2, 1] = False
    short = np.zeros(len(lengths), np.int64)
    short[lengths > 0] = padding[ends].astype(np.int64) + padding[ends - 1]
    return _binary(triples[kept.reshape(-1)], lengths // 4 * 3 - short, texts)


def _characters(array: pa.Array) -> tuple[np.ndarray, np.ndarray]:
    """(the bytes of all values behind each other, the length of each, 0 for NULL)."""
    kept = array.cast(pa.binary()).fill_null(b"")
    _, offsets, data = kept.buffers()
    bounds = np.frombuffer(offsets, np.int32)[kept.offset : kept.offset + len(kept) + 1]
    raw = np.frombuffer(data, np.uint8) if data is not None else np.zeros(0, np.uint8)
    return raw[bounds[0] : bounds[-1]], np.diff(bounds).astype(np.int64)


def _binary(data: np.ndarray, lengths: np.ndarray, like: pa.Array) -> pa.Array:
    offsets = np.zeros(len(lengths) + 1, np.int32)
    np.cumsum(lengths, out=offsets[1:])
    buffers = [_validity(like), pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))]
    return pa.Array.from_buffers(pa.binary(), len(lengths), buffers)


def _validity(array: pa.Array) -> pa.Buffer | None:
    if not array.null_count:
        return None
    return pa.py_buffer(np.packbits(array.is_valid().to_numpy(zero_copy_only=False), bitorder="little"))


def decimals(values: pa.Array, scale: int) -> pa.Array:
    """Big-endian two's complement of unscaled values as DECIMAL(38, scale). Raises SchemaMismatch for one
    that has more digits."""
    data, lengths = _characters(values)
    rows = np.repeat(np.arange(len(lengths)), lengths)
    begins = np.cumsum(lengths) - lengths
    place = (begins + lengths)[rows] - 1 - np.arange(len(data))  # from the least significant byte
    first = np.zeros(len(lengths), np.uint8)
    first[lengths > 0] = data[begins[lengths > 0]]
    if (place >= 16).any() or (values.is_valid().to_numpy(zero_copy_only=False) & (lengths == 0)).any():
        raise SchemaMismatch("the bytes of a decimal are 1 to 16")
    whole = np.where(first >= 128, np.uint8(255), np.uint8(0))[:, None].repeat(16, axis=1)
    whole[rows, place] = data
    buffers = [_validity(values), pa.py_buffer(np.ascontiguousarray(whole))]
    wide = pa.Array.from_buffers(pa.decimal128(38, scale), len(values), buffers)
    wide.validate(full=True)  # 16 bytes may hold a 39th digit
    return wide
