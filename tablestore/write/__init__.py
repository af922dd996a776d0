"""Writing: rows → buckets → LSM writers → commit messages → snapshots; expiry. Clients of `meta`, siblings
of `read`."""
