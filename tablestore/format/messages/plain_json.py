"""`json`: each message is a row, one object; a message without a value is none."""

from __future__ import annotations

from dataclasses import dataclass, replace

from tablestore.format.messages import json_text
from tablestore.format.messages.encodings import Encoding
from tablestore.format.messages.images import Changes, inserted, typed_rows
from tablestore.format.messages.messages import Messages
from tablestore.format.types.data_type import DataField


@dataclass(frozen=True)
class PlainJson:
    """Rows as JSON objects."""

    columns: tuple[DataField, ...]
    appends: bool = True

    def of(self, columns: tuple[DataField, ...]) -> PlainJson:
        return replace(self, columns=columns)

    def decode(self, messages: Messages) -> Changes:
        texts = messages.values.drop_null()
        objects = json_text.parsed(texts, json_text.shape(self.columns))
        rows = json_text.images(objects, self.columns, texts, lambda message, _: message)
        return typed_rows(inserted(rows), self.columns, [Encoding()] * len(self.columns))
