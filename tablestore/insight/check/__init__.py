"""Does a table keep the format's invariants? Read anew, with code of its own."""
