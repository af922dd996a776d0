"""Mutants: small faults put into the engine's decisions, to see whether their nearest tests notice.

`rules` says which modules are tried and with which tests, `faults` makes the mutants of a source, `session`
runs tests against them, `trial` does that in a process of its own.
"""
