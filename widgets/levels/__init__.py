"""The levels of an LSM tree: model, figures, widget."""
