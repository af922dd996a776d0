"""The public surface: Lake (catalog), Table, Scan."""
