"""The command `doctor`: the machine, or the tables of a lake, with remedies."""
