"""LogAndLake: the log of a table, the snapshots that name its offsets, and how a reader goes through both."""
