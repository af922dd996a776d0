"""`docs --api`: every public name is in the reference, no link is broken, nothing comes from elsewhere."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

import tablestore as ts
import widgets
from notebooks.cli import docs, pages, reference
from tablestore.core.options import rules
from tablestore.insight.inspect.inspect import Inspect
from tests.table.test_examples import VERBS


@pytest.fixture(scope="module")
def written() -> dict[str, str]:
    return reference.html(reference.pages())


def identifiers(page: str) -> list[str]:
    return re.findall(r'\bid="([^"]+)"', page)


def test_every_public_name_is_explained(written: dict[str, str]) -> None:
    actual = {name for page in written.values() for name in identifiers(page)}
    wanted = {f"ts.{name}" for name in ts.__all__ if name not in ("Lake", "Table", "Scan")}
    wanted |= {"Lake", "Table", "Scan", *VERBS, *widgets.__all__}
    wanted |= {f"Inspect.{n}" for n, f in vars(Inspect).items() if n[0] != "_" and inspect.isfunction(f)}
    wanted |= {fact.name for fact in rules.describe()}
    assert len(wanted) > 400
    assert sorted(wanted - actual) == []


def test_no_link_is_broken_and_no_name_is_there_twice(written: dict[str, str]) -> None:
    links, places = 0, {name: identifiers(page) for name, page in written.items()}
    for name, page in written.items():
        assert len(places[name]) == len(set(places[name])), name
        for target in re.findall(r'href="([^"]+)"', page):
            file, _, place = target.partition("#")
            assert not place or place in places[file or name], f"{name}: {target}"
            assert not file or file in written, f"{name}: {target}"
            links += 1
        assert pages.references(page) == []
    assert links > 800


def test_signatures_errors_and_examples_are_shown(written: dict[str, str]) -> None:
    page = re.sub(r"<[^>]+>", "", written["table.html"])
    assert "at(\n    *,\n    snapshot: int | None = None," in page
    assert "&gt;&gt;&gt; orders.check()\n[]" in page
    assert 'Raises <a href="errors.html#ts.NotFound">NotFound</a>' in written["table.html"]
    assert 'href="table.html#Table.at"' in written["index.html"]


def test_the_verb_writes_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert docs.main(["--api", "--to", str(tmp_path)]) == 0
    assert Path(capsys.readouterr().out.strip()) == tmp_path / "api" / "index.html"
    assert (tmp_path / "api" / "table.html").stat().st_size > 50_000
