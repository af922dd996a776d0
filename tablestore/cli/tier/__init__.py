"""The command `tier`: a tiering service or a coordinator, and their pictures on a terminal."""
