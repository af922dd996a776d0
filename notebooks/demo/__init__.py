"""The main demo in steps, as plain functions: what `./workbench demo` runs and what notebooks call one by
one.
"""
