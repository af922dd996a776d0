"""The health of the machine, or of the tables at a path."""

from __future__ import annotations

import argparse

from tablestore.cli.doctor import machine, tables


def main(options: argparse.Namespace) -> int:
    """Print the findings; 1 if something needed is missing or something stays broken."""
    if options.path is None:
        return machine.report(machine.examine(), as_json=options.json)
    return tables.report(options)
