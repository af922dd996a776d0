"""Client of a Fluss cluster: its tables, logs and snapshots as Arrow, and what a tiering service tells it.

`messages/` the protocol · `connection` one server, `sign_in` who asks · `cluster` all
servers · `answers` checks what they say, `remote_files` where they may say that files are · `admin` tables,
offsets, snapshots, heartbeats · `log_records` and `log_scan` read logs, `kv` keyed tables as of a snapshot,
and keep that · `write` writes both. Speaks to Fluss 0.6 to 0.9, of which 0.7 and 0.9 are run in
tests. Packages of the extra `fluss` are imported when a cluster is first asked.

A table that is to be tiered, and rows in it:

    with Cluster("127.0.0.1:9123") as cluster:
        columns = (FlussColumn("id", BIGINT.not_null()), FlussColumn("status", STRING))
        made = TableDescriptor(columns, primary_key=("id",), properties={"table.datalake.enabled": "true"})
        admin = Admin(cluster)
        admin.create_database("shop", ignore_if_exists=True)
        orders = admin.create_table(TablePath("shop", "orders"), made)
        TableWriter(cluster, orders).upsert(pa.table({"id": [1, 2], "status": ["new", "new"]}))

with `Cluster` of `cluster`, `Admin` of `admin`, `FlussColumn`, `TableDescriptor`, `TablePath` of `tables`,
`TableWriter` of `write`, and types of `tablestore.format.types.arrow_types`.
"""
