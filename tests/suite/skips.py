"""Counterparts that are not there: honest skips at home, failures where `WORKBENCH_CI` is 1, one line
at the end.

A skip whose reason starts with "needs " means that a peer or a tool is missing on this machine.
"""

from __future__ import annotations

import os

import pytest

MISSING = "needs "


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    report = yield
    return fail_if_missing(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> object:
    report = yield
    return fail_if_missing(report)


def fail_if_missing(report: pytest.TestReport | pytest.CollectReport) -> object:
    """In CI a skip for something missing becomes a failure; an expected failure stays what it is."""
    if not report.skipped or hasattr(report, "wasxfail") or os.environ.get("WORKBENCH_CI") != "1":
        return report
    reason = skip_reason(report.longrepr)
    if reason.startswith(MISSING):
        report.outcome = "failed"
        report.longrepr = f"must not be skipped with WORKBENCH_CI=1: {reason}"
    return report


def skip_reason(longrepr: object) -> str:
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return str(text).removeprefix("Skipped: ")


@pytest.hookimpl(trylast=True)
def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = {skip_reason(report.longrepr) for report in terminalreporter.stats.get("skipped", [])}
    missing = sorted(reason.removeprefix(MISSING) for reason in reasons if reason.startswith(MISSING))
    if missing:
        terminalreporter.line("")
        terminalreporter.line(f"not there, so not tried: {' · '.join(missing)}", yellow=True)
