"""File indexes: small files beside data files, or bytes in manifests, that say which rows a filter can select
(FORMAT.md 16).

`container` encodes the indexes of all columns; `bloom`, `bitmap`, `bsi` and `range_bitmap` are the four
kinds; `writing` makes them while a data file is written, `reading` evaluates filters with them. No I/O here.
"""
