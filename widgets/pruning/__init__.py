"""Why files are read or skipped: model, figure, widget."""
