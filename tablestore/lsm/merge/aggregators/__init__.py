"""Aggregators: what makes one value of the values of a column."""
