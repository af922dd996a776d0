"""Reading: clients of `meta` that never write to a table, but for consumer files.

`pruning`, `split`, `plan` say which files a scan needs; `split_read`, `incremental`, `stream` give the rows;
`time_travel`, `inspect`, `check` look at the metadata.
"""
