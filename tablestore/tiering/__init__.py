"""Tiering: what is new in a streaming cluster, copied into tables of a lake in rounds, each row once."""
