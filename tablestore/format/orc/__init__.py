"""ORC: data files, by Arrow and, for some timestamps, by pyorc."""
