"""Changes by key and snapshot, and what each changelog producer makes of one input."""
