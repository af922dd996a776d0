"""A message from bytes that somebody else has sent: whole, with every text a text, or Corrupt.

Protobuf itself takes a message without its required fields, and gives bytes where a text is no UTF-8.
"""

from __future__ import annotations

from typing import Any

from tablestore.core.errors import Corrupt, brief

_with_texts: dict[str, tuple[tuple[str, bool, bool], ...]] = {}


def decoded(kind: Any, body: bytes | memoryview, sender: str, what: str) -> Any:
    """The message of class `kind` in `body`. Raises Corrupt, naming `sender` and `what` it is, for a body
    that holds none."""
    try:
        message = kind.FromString(body)
    except Exception as e:  # protobuf's DecodeError, of a package imported when first used
        raise Corrupt(sender, f"{what}: {brief(e)}") from e
    if not message.IsInitialized():
        raise Corrupt(sender, f"{what} lacks {', '.join(message.FindInitializationErrors()[:3])}")
    wrong = _no_text(message)
    if wrong:
        raise Corrupt(sender, f"{what}: its {wrong} is no text in UTF-8")
    return message


def _no_text(message: Any) -> str | None:
    """The name of a field, at any depth, that should be a text and is none."""
    for name, repeated, nested in _fields(message.DESCRIPTOR):
        if not repeated and not message.HasField(name):
            continue
        value = getattr(message, name)
        for each in value if repeated else (value,):
            wrong = _no_text(each) if nested else None if isinstance(each, str) else name
            if wrong:
                return wrong
    return None


def _fields(descriptor: Any) -> tuple[tuple[str, bool, bool], ...]:
    """(name, is repeated, is a message) of the fields that are texts or hold some: rows are not looked at."""
    if descriptor.full_name not in _with_texts:
        _with_texts[descriptor.full_name] = tuple(
            (field.name, field.is_repeated, field.message_type is not None)
            for field in descriptor.fields
            if field.type == field.TYPE_STRING or (field.message_type and _fields(field.message_type))
        )
    return _with_texts[descriptor.full_name]
