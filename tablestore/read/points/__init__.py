"""Rows of given primary keys."""
