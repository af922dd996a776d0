"""The embedded log: files in the table's directory, made by put-if-absent; no server, no lock."""
