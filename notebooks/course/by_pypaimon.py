"""The rows of a table as pypaimon reads them, into a Parquet file: `by_pypaimon.py WAREHOUSE DB.TABLE FILE`.

A plain script for a Python that has pypaimon, which wants an older pyarrow than the workbench and so lives
in an environment of its own. Called by `foreign.read_by_pypaimon`; imports nothing of ours.
"""

import sys

import pyarrow.parquet as pq
from pypaimon import CatalogFactory


def main(warehouse: str, table: str, file: str) -> None:
    """Plan, read, write."""
    builder = CatalogFactory.create({"warehouse": warehouse}).get_table(table).new_read_builder()
    splits = builder.new_scan().plan().splits()
    pq.write_table(builder.new_read().to_arrow(splits), file)


if __name__ == "__main__":
    main(*sys.argv[1:])
