"""Snapshot files: what is no text is damage, wherever it stands."""

from __future__ import annotations

import json

import pytest

from tablestore.core.errors import Corrupt
from tablestore.format import snapshot
from tablestore.format.snapshot import Snapshot

PLAIN = Snapshot(1, 0, "base", "delta", "me", 7, "APPEND", 5, properties={"a": "b"})


def test_what_is_written_is_read_back() -> None:
    assert snapshot.from_json(snapshot.to_json(PLAIN), "here") == PLAIN


@pytest.mark.parametrize(
    ("key", "value"),
    [("commitUser", "m\ud800"), ("deltaManifestList", "\udfff"), ("properties", {"a": "\ud800"})],
)
def test_half_a_character_is_damage(key: str, value: object) -> None:
    body = json.loads(snapshot.to_json(PLAIN)) | {key: value}
    with pytest.raises(Corrupt, match=f"field '{key}'"):
        snapshot.from_json(json.dumps(body).encode(), "here")
