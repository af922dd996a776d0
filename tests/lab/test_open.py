"""`workbench open` in a browser: the notebook has run, its widgets are live, nothing stays behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

import tablestore as ts
from notebooks.cli.places import ROOT
from tests.browsing import needs_browser

if TYPE_CHECKING:
    from playwright import sync_api as playwright

pytestmark = [*needs_browser, pytest.mark.large]


def test_a_table_opens_run_already_and_live(browser: playwright.Browser, tmp_path: Path) -> None:
    schema = pa.schema([("k", pa.int64())])
    table = ts.connect(tmp_path / "it's").create_table("shop.orders", schema=schema, primary_key=["k"])
    for number in range(3):
        table.write(pa.table({"k": [number]}, schema=schema))
    private = tmp_path / "private"
    private.mkdir()
    command = [sys.executable, "-P", "-m", "notebooks.cli", "open", table.location, "--no-browser"]
    environment = os.environ | {"PYTHONPATH": str(ROOT), "TMPDIR": str(private)}
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=log, start_new_session=True
        )
        try:
            address = process.stdout.readline().decode().strip()
            log.seek(0)
            assert address.startswith("http://127.0.0.1:"), log.read().decode()[-2000:]
            page = browser.new_page(viewport={"width": 1400, "height": 1600})
            page.set_default_timeout(120_000)
            page.goto(address)
            page.get_by_role("slider").first.focus()
            page.keyboard.press("ArrowLeft")
            page.locator(".lw-levels h3", has_text="#2").wait_for()
            page.goto("about:blank")
            page.close()
        finally:
            process.send_signal(signal.SIGINT)
            process.wait(120)
        assert list(private.glob("workbench-open-*")) == []
