"""Character sets of MariaDB and MySQL: text columns of the binlog, in a column's own set, as UTF-8.

The codecs are Python's; a set for which it has none that gives what the server gives is refused by name. (The
server's latin1 is cp1252 with the five gaps filled.) tests/cdc/mysql compares each with the server's
conversion.
"""

from __future__ import annotations

import codecs

import pyarrow as pa

from tablestore.core.errors import Unsupported

_AS_UTF8 = {"utf8", "utf8mb3", "utf8mb4", "ascii"}
CODECS = {
    "latin1": "cp1252",
    "latin2": "iso8859-2",
    "latin5": "iso8859-9",
    "latin7": "iso8859-13",
    "cp1250": "cp1250",
    "cp1251": "cp1251",
    "cp1256": "cp1256",
    "cp1257": "cp1257",
    "cp850": "cp850",
    "cp852": "cp852",
    "cp866": "cp866",
    "greek": "iso8859-7",
    "hebrew": "iso8859-8",
    "koi8r": "koi8-r",
    "koi8u": "koi8-u",
    "macroman": "mac-roman",
    "tis620": "iso8859-11",
    "ucs2": "utf-16-be",
    "utf16": "utf-16-be",
    "utf16le": "utf-16-le",
    "utf32": "utf-32-be",
    "gbk": "gbk",
    "gb2312": "gb2312",
    "cp932": "cp932",
    "sjis": "shift_jis",
    "euckr": "cp949",
}
"""Sets that are not UTF-8, and their codecs in Python."""
_INSTEAD = {
    "cp866": str.maketrans("¤№", "²ⁿ"),
    "greek": str.maketrans("‘’", "ʽʼ"),
    "hebrew": str.maketrans("¯", "‾"),
    "koi8u": str.maketrans("∙", "•"),
    "sjis": str.maketrans("＼", "\\"),
}
"""Where the server has another character than the codec."""


def _control(error: UnicodeError) -> tuple[str, int]:
    """A byte of cp1252's gaps as the control character of its number."""
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return chr(error.object[error.start]), error.start + 1


codecs.register_error("tablestore-gaps", _control)


def is_text(charset: str) -> bool:
    """Whether bytes in the set are text at all."""
    return charset not in ("", "binary")


def require_known(charset: str, column: str) -> None:
    """Raise Unsupported for a set that cannot be decoded."""
    if is_text(charset) and charset not in _AS_UTF8 and charset not in CODECS:
        raise Unsupported(f"column {column!r} in character set {charset}", "convert it to utf8mb4")


def decoded(values: pa.Array, charset: str) -> pa.Array:
    """Bytes in the set as bytes in UTF-8; raises UnicodeError for bytes that are no text in it."""
    if charset in _AS_UTF8 or not is_text(charset):
        return values
    codec, errors = CODECS[charset], "tablestore-gaps" if charset == "latin1" else "strict"
    distinct = values.dictionary_encode()
    instead = _INSTEAD.get(charset, {})
    texts = [
        value.decode(codec, errors).translate(instead).encode() for value in distinct.dictionary.to_pylist()
    ]
    return pa.array(texts, pa.binary()).take(distinct.indices)


def text(value: bytes, charset: str) -> str:
    """One value as text."""
    return str(decoded(pa.array([value], pa.binary()), charset)[0].as_py().decode())
