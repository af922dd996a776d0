"""Column types: values, text, Arrow types, and casts between them."""
