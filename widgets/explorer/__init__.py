"""What a snapshot is made of: model, figure, widget."""
