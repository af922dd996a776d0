"""LakeHealth: the tables of a warehouse by health."""
