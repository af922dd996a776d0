"""Inspection: a table's metadata as Arrow tables, from snapshots and files to storage and amplification."""
