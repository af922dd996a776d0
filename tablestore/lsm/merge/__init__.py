"""How rows of one key become one row: the merge engines, whole columns at a time."""
