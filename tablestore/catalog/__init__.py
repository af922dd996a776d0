"""Catalogs: which databases and tables there are, where they lie, and who may commit next.

`catalog` is the interface; `filesystem`, `jdbc` and `hive` implement it; `options` are what `connect` takes;
`opening` chooses. `sql` and `metastore` talk to the servers, `lock_wait` waits for a lock.
"""
