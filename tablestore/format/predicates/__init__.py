"""Predicates: conditions on columns, from Python or SQL text, and their literals."""
