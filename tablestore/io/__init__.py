"""Files: the only package that touches storage. `fileio` the protocol and the local store, `object_store`
S3-compatible ones, `routed` the choice between them, `guarded` a catalog's locks, `paths` where files are."""
