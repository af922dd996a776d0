"""Bars of a query's rows, one a label, that move as the rows change."""
