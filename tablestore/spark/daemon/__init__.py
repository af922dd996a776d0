"""The folder that `sessions` adds to the PYTHONPATH of the JVM, for the one module in it."""
