"""How sorted runs become one row a key: model, figure, widget."""
