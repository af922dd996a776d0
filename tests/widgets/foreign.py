"""A table as another engine leaves it, with options that we refuse to store."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

import tablestore as ts
from tablestore.format.checksums import unsealed


def stored_by_another(table: ts.Table, options: Mapping[str, str]) -> ts.Table:
    """The table opened anew, after `options` were added to its first schema on disk."""
    file = Path(table.location) / "schema" / "schema-0"
    schema = json.loads(unsealed(file.read_bytes()))
    schema["options"] |= options
    file.write_text(json.dumps(schema))
    return ts.open(table.location)
