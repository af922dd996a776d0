"""Commits over time: model, figure, widget."""
