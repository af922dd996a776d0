"""Writing: rows → buckets → LSM writers → commit messages → snapshots; expiry. A client of `meta`, beside
`read`."""
