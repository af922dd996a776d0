"""Files: the only package that touches the file system. See `fileio` (protocol and local store) and
`paths`."""
