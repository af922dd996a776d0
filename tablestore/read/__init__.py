"""Reading: which files a scan needs (`pruning`, `split`, `plan`), their rows (`split_read`, `incremental`,
`stream`), and what the metadata say (`time_travel`, `inspect`, `check`). Clients of `meta`; nothing here
writes to a table but consumer files.
"""
