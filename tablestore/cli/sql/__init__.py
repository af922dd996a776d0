"""The command `sql`: a shell, or scripts over a lake."""
