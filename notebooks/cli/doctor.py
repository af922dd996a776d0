"""`doctor` of a checkout: its packages must be those of the lock; the rest is the installed command's.

With a PATH it is all the installed command's. Called by `workbench`.
"""

from __future__ import annotations

from collections.abc import Sequence

from notebooks.cli.places import CHECKOUT, ROOT
from tablestore.cli.doctor import command
from tablestore.cli.doctor.machine import DoctorLine, installed, machine_findings, python_finding, report
from tablestore.cli.doctor.options import parsed

PACKAGES = ("pyspark", "pyarrow", "numpy", "pandas", "jupyterlab", "ipywidgets", "anywidget", "plotly")
REMAKE = "./workbench clean, then any verb makes the environment anew"


def main(arguments: Sequence[str]) -> int:
    """Look at the environment of the checkout, or at the tables of a PATH; the exit code."""
    options = parsed(arguments, CHECKOUT)
    if options.path is not None:
        return command.main(options)
    return report(examine(), as_json=options.json)


def examine() -> list[DoctorLine]:
    """Every finding, in the order of the table."""
    return [python_finding(), *package_findings(), lock_finding(), *machine_findings()]


def package_findings() -> list[DoctorLine]:
    """What the verbs import."""
    findings = []
    for name in PACKAGES:
        version = installed(name)
        if version:
            findings.append(DoctorLine(name, version))
        else:
            findings.append(DoctorLine(name, "not installed", "missing", REMAKE))
    return findings


def lock_finding() -> DoctorLine:
    """How many packages differ from `requirements.lock`: a note, since a person may have installed more."""
    pins = dict(
        line.split("==") for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line
    )
    different = [name for name, pin in pins.items() if installed(name) != pin]
    if not different:
        return DoctorLine("lock", f"all {len(pins)} packages as pinned")
    named = ", ".join(different[:4]) + (" …" if len(different) > 4 else "")
    return DoctorLine("lock", f"{len(different)} of {len(pins)} packages differ: {named}", "note", REMAKE)
