"""Benchmarks: `./workbench bench NAME`. README.md says how to read them."""
