"""What the READMEs tell people to type works."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import tablestore as ts

ROOT = Path(__file__).parents[1]
README = ROOT / "README.md"
GUIDE = ROOT / "notebooks" / "guide"
GUIDES = sorted(GUIDE.glob("*.md"))


def snippets(readme: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", readme.read_text(encoding="utf-8"), flags=re.S)


def test_the_examples_run_when_pasted(tmp_path: Path) -> None:
    names = ("tables", "sql", "operations", "maintenance", "scale", "logs")
    pages = [README, *(GUIDE / f"{name}.md" for name in names)]
    with_spark = {GUIDE / f"{name}.md" for name in ("cluster", "spark")}  # tests/demo/test_cluster.py,
    # tests/spark/test_lake_catalog.py
    assert {page for page in GUIDES if snippets(page, "python")} == {*pages[1:], *with_spark}
    actual = [snippet for page in pages for snippet in snippets(page, "python")]
    done = subprocess.run(
        [sys.executable, "-c", "\n".join(actual)],  # each goes on where the one before ended
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
    assert "8 → 1 run" in done.stdout
    assert "no requests" in done.stdout
    for page, first in ((GUIDE / "scale.md", "50,000 "), (GUIDE / "operations.md", "L0×2 ")):
        (shown,) = re.findall(rf"```\n({first}.*?)```", page.read_text(encoding="utf-8"), flags=re.S)
        assert shown in done.stdout
    assert "committed: [{'order_id': 1, 'status': 'new'}]" in done.stdout
    assert "now: [{'order_id': 1, 'status': 'paid'}, {'order_id': 2, 'status': 'new'}]" in done.stdout
    assert "files 2\n" in done.stdout
    assert "1 buckets" not in done.stdout
    assert "read  ▃" in done.stdout
    assert "K key range" in done.stdout
    assert (tmp_path / "orders.html").stat().st_size > 50_000


def test_the_script_in_sql_runs_when_pasted(tmp_path: Path) -> None:
    script, _ = snippets(GUIDE / "sql.md", "sql")  # the second needs Spark: tests/spark/test_sql_jobs.py
    results = list(ts.sql_session(ts.connect(tmp_path)).script(script))
    means = [row["mean"] for row in results[4].to_arrow().to_pylist()]
    assert means == [3, 7]
    assert "stock" in repr(results[-2])


def test_every_file_that_a_readme_names_exists() -> None:
    for readme in (
        README,
        *GUIDES,
        *(ROOT / "tablestore").rglob("*.md"),
        ROOT / "widgets" / "README.md",
        ROOT / "datasets" / "cdc" / "README.md",
    ):
        text = readme.read_text(encoding="utf-8")
        for target in re.findall(r"\]\(([^)#]+)\)", text):
            if "://" not in target:
                assert (readme.parent / target).exists(), f"{readme}: {target}"


def headings(page: Path) -> set[str]:
    """The anchors that GitHub and JupyterLab make of a page's headings."""
    lines = re.findall(r"^#+ (.+)$", page.read_text(encoding="utf-8"), flags=re.M)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}


@pytest.mark.parametrize("page", [README, *GUIDES], ids=lambda page: page.stem)
def test_a_page_is_short_and_its_anchors_exist(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert len(text.splitlines()) <= 150
    for target, anchor in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", text):
        assert anchor in headings(page.parent / target if target else page), f"{target}#{anchor}"


def test_sentences_are_short() -> None:
    folders = ("tablestore", "tablestore/cdc", "widgets", "tests", "notebooks/bench", "datasets/cdc")
    for page in (README, *GUIDES, *(ROOT / folder / "README.md" for folder in folders)):
        for sentence in sentences(page.read_text(encoding="utf-8")):
            assert len(sentence.split()) <= 25, (page, sentence)


def sentences(text: str) -> list[str]:
    """What stands between full stops, colons and blank lines of a page, without code, tables and headings."""
    prose = re.sub(r"```.*?```|^\|.*?$|^#.*?$", "\n\n", text, flags=re.S | re.M)
    prose = re.sub(r"`[^`]*`", "code", prose)
    return re.split(r"[.:;?!](?:\s|$)|\n\s*\n|\n- |\*\*", prose)


def test_every_module_that_the_engines_pages_name_exists() -> None:
    engine = ROOT / "tablestore"
    modules = [
        "/" + path.relative_to(ROOT).as_posix()
        for path in (*engine.rglob("*.py"), Path(__file__).with_name("test_layers.py"))
    ]
    for page in (*GUIDES, engine / "README.md", engine / "GLOSSARY.md", *(engine / "decisions").glob("*.md")):
        named = re.findall(r"`([a-z_0-9/]+\.py)`", page.read_text(encoding="utf-8"))
        missing = [name for name in named if not any(path.endswith(f"/{name}") for path in modules)]
        assert [name for name in missing if not (ROOT / name).exists()] == [], page


def test_the_map_of_the_engine_names_modules_where_they_are() -> None:
    """A module without a path is in a folder that its line names."""
    engine = ROOT / "tablestore"
    paths = ["/" + path.relative_to(engine).as_posix() for path in engine.rglob("*.py")]
    for line in (engine / "README.md").read_text(encoding="utf-8").splitlines():
        named = re.findall(r"`([a-z_0-9/]+(?:\.py|/))`", line)
        folders = [f"/{name.rpartition('/')[0]}/" for name in named if "/" in name]
        for name in (name for name in named if name.endswith(".py") and "/" not in name):
            places = [path for path in paths if path.endswith(f"/{name}")]
            assert any(path == f"/{name}" or any(f in path for f in folders) for path in places), (name, line)


def test_the_map_of_the_engine_is_short() -> None:
    assert len((ROOT / "tablestore" / "README.md").read_text(encoding="utf-8").splitlines()) <= 250


def test_the_invariants_are_numbered_alike_everywhere() -> None:
    readme = (ROOT / "tablestore" / "README.md").read_text(encoding="utf-8")
    numbered = set(re.findall(r"^\| (I\d+) \|", readme, flags=re.M))
    assert numbered == {f"I{i}" for i in range(1, 15)}
    used = set()
    for path in (ROOT / "tablestore").rglob("*.py"):
        used |= set(re.findall(r"\b(I\d{1,2})\b", path.read_text(encoding="utf-8")))
    assert used <= numbered
