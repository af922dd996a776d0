"""Tests mirror the packages: a folder below that of a package has the name of a package there."""

from __future__ import annotations

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PACKAGES = "core io format fluss meta catalog lsm write read insight table verbs".split()
PACKAGES += "flow maintenance cdc tiering spark sql cli".split()


@pytest.mark.parametrize("package", PACKAGES)
def test_folders_of_tests_are_those_of_the_packages(package: str) -> None:
    folder = ROOT / "tests" / package
    tested = {path.parent.relative_to(folder).as_posix() for path in folder.rglob("test_*.py")}
    assert tested
    assert not {name for name in tested if not (ROOT / "tablestore" / package / name).is_dir()}


def test_every_folder_of_tests_is_described() -> None:
    text = (ROOT / "tests" / "README.md").read_text(encoding="utf-8")
    folders = [path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name[0] not in "._"]
    assert not [name for name in folders if name not in text]
