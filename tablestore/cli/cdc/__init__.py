"""The command `cdc`: a change capture and its picture on a terminal."""
