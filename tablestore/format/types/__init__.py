"""Column types: what they are, their text, their Arrow forms, casts between them."""
