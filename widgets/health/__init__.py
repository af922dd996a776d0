"""Health: a table's buckets, and a warehouse's tables, the worst first."""
