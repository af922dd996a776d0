"""Schema files: ids as Java gives them, files of every version, damaged ones named."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tablestore as ts
from tablestore.core.errors import Corrupt
from tablestore.format.checksums import unsealed
from tablestore.format.schema import from_json, to_json
from tests.tables import schema_of

GOLDEN = sorted(Path(__file__).parents[1].glob("golden/paimon-java/**/schema/schema-*"))


@pytest.mark.parametrize("path", GOLDEN, ids=lambda p: "/".join(p.parts[-4:]))
def test_schema_files_of_java_are_written_as_they_were_read(path: Path) -> None:
    data = path.read_bytes()
    assert json.loads(unsealed(to_json(from_json(data, str(path))))) == json.loads(data)


def test_ids_of_nested_fields_follow_their_column_children_first() -> None:
    inner = ts.ROW(x=ts.INT, deep=ts.ROW(y=ts.INT))
    schema = schema_of(
        {"k": ts.INT, "r": inner, "a": ts.ARRAY(ts.MAP(ts.STRING, ts.ROW(z=ts.DATE))), "last": ts.INT}
    )
    r = schema.by_name["r"]
    assert [f.id for f in schema.fields] == [0, 1, 5, 7]
    assert [f.id for f in r.type.children] == [2, 4]
    assert r.type.children[1].type.children[0].id == 3
    assert schema.by_name["a"].type.element.children[1].type.children[0].id == 6
    assert schema.highest_field_id == 7


def test_highest_id_looks_into_rows_when_the_file_does_not_say() -> None:
    body = json.loads(to_json(schema_of({"k": ts.INT, "r": ts.ROW(x=ts.INT)})))
    del body["highestFieldId"]
    assert from_json(json.dumps(body).encode(), "f").highest_field_id == 2


def test_defaults_of_older_versions() -> None:
    body = json.loads(to_json(schema_of({"k": ts.INT})))
    old = {v: from_json(json.dumps(body | {"version": v}).encode(), "f").options for v in (1, 2, 3)}
    assert old[1] == {"bucket": "1", "file.format": "orc"}
    assert old[2] == {"file.format": "orc"}
    assert old[3] == {}


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"[]",
        b'{"fields": 3}',
        b'{"version": 4, "id": 0, "fields": []}',
        b'{"id": 0, "fields": [{"name": "a", "type": "SET"}]}',
        b'{"id": 0, "fields": [{"name": "a", "type": '
        + b'{"type": "ARRAY", "element": ' * 5000
        + b'"INT"'
        + b"}" * 5002,
        b'{"id": 0, "fields": [{"name": "a", "type": "INT"}, {"name": "a", "type": "INT"}]}',
        b'{"id": 0, "fields": [{"name": "a", "type": "INT"}, {"id": 0, "name": "b", "type": "INT"}]}',
        b'{"id": 0, "fields": [{"name": "a", "type": "INT"}], "primaryKeys": ["b"]}',
        b'{"id": 0, "fields": [{"name": "a", "type": "INT"}], "partitionKeys": [["a"]]}',
        b'{"id": 0, "fields": [{"name": "a", "type": {"type": "ROW", "fields": [3]}}]}',
        b"[" * 100_000,
    ],
)
def test_damaged_files_are_named(data: bytes) -> None:
    with pytest.raises(Corrupt, match="schema-3"):
        from_json(data, "schema-3")
