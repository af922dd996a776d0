"""Client of a Fluss cluster: its tables, logs and snapshots as Arrow, and what a tiering service tells it.

`messages/` the protocol · `connection` one server · `cluster` all of them · `admin` tables, offsets,
snapshots, heartbeats · `log_records` and `log_scan` read logs, `kv` keyed tables as of a snapshot · `write`
writes both. Speaks to Fluss 0.6 to 0.9, of which 0.7 is run in tests. Packages of the extra `fluss` are
imported when a cluster is first asked.
"""
