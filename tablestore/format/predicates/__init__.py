"""Predicates: conditions over columns, from Python or SQL text, and the literals in them."""
