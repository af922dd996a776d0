"""The check: whether a table keeps the invariants I1 to I13, by reading it anew with code of its own."""
