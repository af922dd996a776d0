"""CatalogView: a named query that a catalog keeps, and its JSON in SQL catalogs, as Paimon 2.0 writes it.

    {"fields": [{"id": 0, "name": "a", "type": "INT"}, …], "query": "SELECT …", "dialects": {},
     "comment": "…", "options": {}}

A directory has no place for views; a Hive metastore keeps them as entries of type VIRTUAL_VIEW (`hive.py`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tablestore.core.errors import Corrupt, TablestoreError, Unsupported
from tablestore.format.schema import numbered
from tablestore.format.types.data_type import DataField
from tablestore.format.types.type_text import parse_field

DIALECT = "flink"  # whose text of a query is preferred where a view has several


@dataclass(frozen=True, slots=True)
class CatalogView:
    """A query under a name; `columns` are those of its rows, under the names that the view gives them."""

    columns: tuple[DataField, ...]
    query: str
    comment: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """The text that a SQL catalog stores."""
        body: dict[str, Any] = {
            "fields": [f.to_json() for f in numbered(self.columns)],
            "query": self.query,
            "dialects": {},
        }
        if self.comment is not None:
            body["comment"] = self.comment
        return json.dumps({**body, "options": dict(self.options)}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, name: str) -> CatalogView:
        """The view of a stored text; raises Corrupt naming the view."""
        try:
            body = json.loads(text)
            fields = tuple(parse_field(item, i) for i, item in enumerate(body["fields"]))
            query = (body.get("dialects") or {}).get(DIALECT, body["query"])
            options = {str(k): str(v) for k, v in (body.get("options") or {}).items()}
            return cls(fields, str(query), body.get("comment"), options)
        except (TablestoreError, ValueError, TypeError, KeyError, AttributeError) as e:
            raise Corrupt(f"view {name}", f"its stored text cannot be read: {e}") from None

    def with_query(self, view: CatalogView) -> CatalogView:
        """This view with the query and columns of another; comment and options stay unless that has some."""
        return replace(
            view,
            comment=self.comment if view.comment is None else view.comment,
            options={**self.options, **view.options},
        )


def no_place(what: str) -> Unsupported:
    """The error of a catalog that is a directory: it keeps tables, and names of databases."""
    return Unsupported(
        f"{what} in a catalog of files",
        "a directory has no place for it; catalogs with metastore = jdbc or hive have",
    )
