"""Planning a scan: which files are read, how they are split, and why the others are not."""
