"""FORMAT.md: its examples are the code's, and page and code point at each other."""

from __future__ import annotations

import dataclasses
import doctest
import functools
import json
import re
from collections import defaultdict
from pathlib import Path

import pytest

from tablestore.core.errors import InvalidOption
from tablestore.format import checksums, snapshot
from tablestore.format.manifests import index_manifest, manifest
from tablestore.format.types.arrow_types import INT
from tablestore.format.types.data_type import DataField
from tablestore.lsm.merge.functions import aggregator
from tests import text_cases

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "tablestore" / "FORMAT.md"
TEXT = PAGE.read_text(encoding="utf-8")
FOLDERS = ("tablestore", "tests", "widgets", "datasets", "notebooks")
HEADING = re.compile(r"^#{2,3} (\d+(?:\.\d+)?) (.+)$", flags=re.M)
CITATION = re.compile(r"FORMAT\.md(?:\s+(\d+(?:\.\d+)?(?:,\s+\d+(?:\.\d+)?)*))?")
SUMMARIES = {"26"}  # lists of what other sections say: nothing of the code's own


def sections() -> list[str]:
    return [number for number, _ in HEADING.findall(TEXT)]


@functools.cache
def citations() -> dict[str, list[str]]:
    """Numbers cited in modules and tests, with the files that do; "" for a mention without a number."""
    actual = defaultdict(list)
    for folder in FOLDERS:
        for path in (ROOT / folder).rglob("*.py"):
            if path == Path(__file__):
                continue
            for match in CITATION.finditer(path.read_text(encoding="utf-8")):
                for number in re.split(r",\s+", match[1] or ""):
                    actual[number].append(path.relative_to(ROOT).as_posix())
    return actual


def test_the_examples_are_what_the_code_gives() -> None:
    inside, lines = False, []
    for line in TEXT.splitlines():  # a line that is no example is blank, so that places are right
        if line.startswith("```"):
            inside = line == "```python"
        lines.append(line if inside and not line.startswith("```") else "")
    actual = doctest.DocTestParser().get_doctest("\n".join(lines) + "\n", {}, PAGE.name, str(PAGE), 0)
    assert len(actual.examples) > 80
    said: list[str] = []
    assert doctest.DocTestRunner().run(actual, out=said.append).failed == 0, "".join(said)


def test_the_cases_of_merge_engines_are_among_those_that_are_run() -> None:
    path = ROOT / "tests" / "lsm" / "merge" / "cases" / "merge_engines.txt"
    run = [
        "\n".join([*text_cases.lines_of(case), "----", answer]) for case, answer in text_cases.blocks(path)
    ]
    shown = re.findall(r"^```cases\n(.*?)\n```$", TEXT, flags=re.M | re.S)
    assert len(shown) > 1
    assert [case for case in shown if case not in run] == []


def test_sections_are_numbered_in_order_and_the_contents_lead_to_them() -> None:
    numbers = [tuple(map(int, n.split("."))) for n in sections()]
    assert numbers == sorted(set(numbers))
    tops = [n for (n, *_) in (n for n in numbers if len(n) == 1)]
    assert tops == list(range(1, len(tops) + 1))
    for number in (n for n in numbers if len(n) == 2):
        assert number == (number[0], 1) or (number[0], number[1] - 1) in numbers, number
    anchors = {
        re.sub(r"[^\w\- ]", "", f"{n} {title}".lower()).replace(" ", "-")
        for n, title in HEADING.findall(TEXT)
    }
    linked = re.findall(r"\]\(#([^)]+)\)", TEXT)
    assert len(linked) == len(tops)
    assert set(linked) <= anchors


def test_every_citation_names_a_section() -> None:
    present = {*sections()}
    assert {n: where for n, where in citations().items() if n not in present} == {}


def test_every_section_is_cited_where_it_is_implemented() -> None:
    """So a section whose code goes is noticed. Those that only hold others need no citation of their own."""
    numbers = sections()
    holders = {n.partition(".")[0] for n in numbers if "." in n}
    assert [n for n in numbers if n not in {*holders, *SUMMARIES, *citations()}] == []


def test_references_within_the_page_lead_to_sections() -> None:
    present = {*sections()}
    named = re.findall(
        r"[( ]((?:[1-9]|1\d|2\d)\.[1-9]\d?)(?= ?[a-g]?[,;:)])",
        re.sub(r"```.*?```|`[^`]*`", "", TEXT, flags=re.S),
    )
    assert len(named) > 50
    assert [n for n in named if n not in present] == []


def test_every_field_and_function_is_on_the_page() -> None:
    lists = (manifest.LIST_SCHEMA, manifest.ENTRY_SCHEMA, manifest.file_schema())
    fields = {f["name"] for schema in lists for f in schema["fields"]}
    fields |= {f["name"] for f in index_manifest.file_message_schema()["fields"]} - {"carried"}
    full = snapshot.Snapshot(*(1 for _ in dataclasses.fields(snapshot.Snapshot)))
    fields |= {*json.loads(snapshot.to_json(dataclasses.replace(full, properties={"a": "b"})))} - {
        checksums.FIELD
    }
    with pytest.raises(InvalidOption, match="there are") as refused:
        aggregator(DataField(0, "a", INT), "?", {})
    functions = str(refused.value).partition("there are ")[2].split(", ")
    assert len(fields) > 60
    assert len(functions) > 18
    assert {name for name in fields if f"`{name}`" not in TEXT} == set()
    assert {name for name in functions if not re.search(rf"\b{name}\b", TEXT)} == set()


def test_modules_that_the_page_names_exist() -> None:
    named = re.findall(r"^\*Code: (.+?)\*$", re.sub(r"(?<!\n)\n(?!\n)", " ", TEXT), flags=re.M)
    modules = [m for line in named for m in re.findall(r"`([\w/.]+)`", line)]
    assert len(modules) > 60
    assert [m for m in modules if not ((PAGE.parent / m).exists() or (ROOT / m).exists())] == []


def test_nothing_else_is_cited() -> None:
    words = "format " + "facts"
    pages = [p for folder in FOLDERS for ext in ("py", "md") for p in (ROOT / folder).rglob(f"*.{ext}")]
    assert [p for p in pages if words in p.read_text(encoding="utf-8").replace("\n", " ")] == []
