"""File indexes: small files beside data files, or bytes in manifests, that tell which rows a filter can
select (FORMAT.md 16).

`container` holds the indexes of all columns; `bloom`, `bitmap`, `bsi` and `range_bitmap` are the four kinds;
`writing` makes them while a data file is written, `reading` asks them. Nothing here does I/O.
"""
