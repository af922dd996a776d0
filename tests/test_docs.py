"""What the READMEs tell people to type works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import tablestore as ts

ROOT = Path(__file__).parents[1]


def snippets(readme: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", readme.read_text(encoding="utf-8"), flags=re.S)


def test_the_quick_start_runs_when_pasted(tmp_path: Path) -> None:
    found = snippets(ROOT / "README.md", "python")
    assert len(found) == 6
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(found)],  # each goes on where the one before ended
        cwd=tmp_path,
        env={"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert "3 rows at snapshot 1" in done.stdout
    assert "-U" in done.stdout
    assert "→ L5" in done.stdout
    assert "{'item': 1, 'low': Decimal('4.00'), 'seen': 2, 'tags': ['new']}" in done.stdout
    assert "2 visits, 1 on trial" in done.stdout
    assert "skipped 1 of 1 file" in done.stdout
    assert re.search(r"Orphans\(.*\[\]$", done.stdout, flags=re.M)  # what check() found
    assert "✓ file number" in done.stdout or "✓ size ratio" in done.stdout
    assert "WhatIf(tablestore.compaction.strategy = leveled)" in done.stdout
    assert "replayed under its own options the table ends with the same files" in done.stdout
    assert "kept by" in done.stdout
    assert "committed: [{'order_id': 1, 'status': 'new'}]" in done.stdout
    assert "now: [{'order_id': 1, 'status': 'paid'}, {'order_id': 2, 'status': 'new'}]" in done.stdout
    assert "files 2\n" in done.stdout
    assert "1 buckets" not in done.stdout
    assert "read  ▃" in done.stdout
    assert "K key range" in done.stdout
    assert (tmp_path / "trips.html").stat().st_size > 50_000


def test_the_script_in_sql_runs_when_pasted(tmp_path: Path) -> None:
    script, _ = snippets(ROOT / "README.md", "sql")  # the second needs Spark: tests/spark/test_sql_jobs.py
    results = list(ts.sql_session(ts.connect(tmp_path)).script(script))
    means = [row["mean"] for row in results[4].to_arrow().to_pylist()]
    assert means == [3, 7]
    assert "stock" in repr(results[-2])


def test_every_file_that_a_readme_names_exists() -> None:
    for readme in (
        ROOT / "README.md",
        ROOT / "tablestore" / "README.md",
        ROOT / "widgets" / "README.md",
        ROOT / "datasets" / "cdc" / "README.md",
    ):
        text = readme.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (readme.parent / target).exists(), f"{readme}: {target}"


def test_every_module_that_the_map_of_the_engine_names_exists() -> None:
    engine = ROOT / "tablestore"
    known = [
        path.relative_to(ROOT).as_posix()
        for path in (*engine.rglob("*.py"), ROOT / "tests" / "test_layers.py")
    ]
    named = re.findall(r"`([a-z_0-9/]+\.py)`", (engine / "README.md").read_text(encoding="utf-8"))
    assert len(named) > 50
    assert not [name for name in named if not any(f"/{path}".endswith(f"/{name}") for path in known)]


def test_the_invariants_are_numbered_alike_everywhere() -> None:
    readme = (ROOT / "tablestore" / "README.md").read_text(encoding="utf-8")
    numbered = set(re.findall(r"^\| (I\d+) \|", readme, flags=re.M))
    assert numbered == {f"I{i}" for i in range(1, 15)}
    used = set()
    for path in (ROOT / "tablestore").rglob("*.py"):
        used |= set(re.findall(r"\b(I\d{1,2})\b", path.read_text(encoding="utf-8")))
    assert used <= numbered
