"""A tiering service at work: model, figure, widget."""
