"""Contender: connectorx, in an environment of its own: rows of a query over one connection, as one Arrow
table."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import quote

import connectorx
import pyarrow.compute as pc

from notebooks.bench.contenders.serve import Answer, serve


def main() -> None:
    serve({"rows": _rows})


def _rows(url: str, password_file: str, table: str) -> Answer:
    password = quote(Path(password_file).read_text(encoding="utf-8"), safe="")
    address = url.replace("@", f":{password}@", 1)
    rows = connectorx.read_sql(address, f"SELECT * FROM {table}", return_type="arrow")
    return {"rows": rows.num_rows, "keys": pc.sum(rows.column(0)).as_py()}


if __name__ == "__main__":
    main()
