"""Change capture from MariaDB and MySQL: consistent snapshots of key ranges and the binlog, both as Arrow
batches of the same types. Tested on MariaDB 10.11; what is peculiar to MySQL itself stands in `server.py`,
untested.
"""
