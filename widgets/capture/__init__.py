"""A change capture under way: model, figure, widget."""
