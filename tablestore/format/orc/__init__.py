"""ORC: data files, with timestamps that Arrow's ORC cannot do."""
