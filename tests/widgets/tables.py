"""Small real tables for the views that read metadata step by step."""

from __future__ import annotations

from pathlib import Path

import tablestore as ts

XSS = "<img src=x onerror=\"document.title='owned'\">"


def months(
    folder: Path, *, name: str = "shop.items", column: str = "note", value: str = "n", **options: str
) -> ts.Table:
    """Two months of items by key: one compacted file each (month 1), then three runs that overlap in month 2.

    The newest two runs of month 2 hold quantities up to 20 only; six commits in all.
    """
    given = {"bucket": 1, "write-only": "true", "file.block-size": "4 kb"} | {
        key.replace("__", "."): text for key, text in options.items()
    }
    table = ts.connect(str(folder)).create_table(
        name,
        schema={"month": ts.INT, "id": ts.BIGINT, "quantity": ts.INT, column: ts.STRING},
        primary_key=["month", "id"],
        partition_by=["month"],
        options=given,
    )

    def write(month: int, ids: range, most: int) -> None:
        texts = [f"{value}{i % 7}" for i in ids]
        quantities = [1 + i * 7 % most for i in ids]
        table.write({"month": [month] * len(ids), "id": list(ids), "quantity": quantities, column: texts})

    write(1, range(0, 1200), 50)
    write(2, range(0, 1200), 50)
    table.with_options({"write-only": "false"}).compact(full=True, partition="month=1")
    write(2, range(200, 600), 50)
    write(2, range(500, 900), 20)
    write(2, range(1000, 1300), 20)
    return table
