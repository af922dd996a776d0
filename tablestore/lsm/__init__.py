"""The LSM tree of one bucket: algorithms over file metadata and Arrow batches; no snapshot knowledge."""
