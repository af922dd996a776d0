"""The durable truth of a table: schemas, snapshots, manifests. `store.Store` bundles them for writers and
readers."""
