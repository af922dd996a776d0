"""Reading: clients of `meta` that never write to a table, but for consumer files.

`pruning`, `split_generator`, `plan` say which files a scan needs; `data_split`, `incremental`, `stream` give
the rows; `time_travel`, `inspect`, `check` look at the metadata.
"""
