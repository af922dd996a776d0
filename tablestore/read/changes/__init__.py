"""Changes between snapshots, and following a table."""
