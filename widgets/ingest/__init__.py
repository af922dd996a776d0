"""A long job under way: model, figure, widget."""
