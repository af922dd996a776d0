"""Statements, a family a module: values that know how to carry themselves out, and their forms."""
