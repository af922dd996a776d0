"""The next compaction and its reason: model, figure, widget."""
