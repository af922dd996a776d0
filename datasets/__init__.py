"""Reproducible data: TPC-H tables and refresh functions, and a change stream made of them.

Same arguments, same bytes. Nothing here knows the table engine; what an engine returns is compared
with `datasets.verify`, which computes the expected rows from the generator alone.
"""
