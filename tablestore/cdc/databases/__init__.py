"""What sources of databases have in common: where a server is, patience while it is away, how far tables are,
and rows as a server sends them, cut into values by columns.
"""
