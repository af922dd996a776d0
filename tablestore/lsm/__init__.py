"""The LSM tree of one bucket: algorithms over file metadata and Arrow batches, without snapshots."""
