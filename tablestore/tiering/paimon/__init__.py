"""Tables of this engine as the lake: their definition, writers, and commits that hold the offsets."""
