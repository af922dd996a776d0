"""Catalogs: which databases and tables there are, where they lie, and who may commit next.

`catalog` the interface, `filesystem`, `jdbc` and `hive` its forms, `options` what tells them apart, `opening`
the choice. `sql` and `metastore` talk to the servers, `waiting` is how a lock is waited for.
"""
