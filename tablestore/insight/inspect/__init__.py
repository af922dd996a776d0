"""A table's metadata as Arrow tables: what lies where, why, who needs it, what it cost."""
