"""Loss of power: what was answered for is there afterwards, or some snapshot at least; and the model of it
has teeth: on a drive that syncs some of the files only, tables are lost."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

import pytest

from tablestore.io import fileio
from tablestore.io.fileio import FileIO, LocalFileIO, Sync
from tests.crash import power
from tests.crash.disk import DiskChange, DiskIO


def test_an_answered_commit_outlasts_every_loss_of_power(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        assert power.run(seed, 40, "commit").lost == ()


def test_after_a_removal_some_snapshot_outlasts_every_loss_of_power(seeds: tuple[int, ...]) -> None:
    for seed in seeds:
        assert power.run(seed, 80, "process").lost == ()


@pytest.mark.parametrize(
    ("mode", "lying"),
    [
        ("commit", "/bucket-"),
        ("commit", "/manifest/"),
        ("commit", "/snapshot/"),
        ("commit", "/snapshot$"),
        ("commit", "/tag/|/schema/|/consumer/"),
        ("process", "/bucket-|/manifest/"),
        ("process", "/(schema|snapshot)/"),
    ],
)
@pytest.mark.sample(2)
def test_a_drive_that_lies_about_some_files_loses_tables(mode: str, lying: str) -> None:
    assert any(power.run(seed, 40, mode, lying=lying).lost for seed in range(12))


def test_the_model_does_what_local_files_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = f"{tmp_path}/t"
    done = watched(monkeypatch)
    use(LocalFileIO(), root)
    disk = DiskIO()
    disk.make_dir(str(tmp_path))
    disk.log.clear()
    use(disk, root)
    assert steps(done) == steps([system_call(change) for change in disk.log if change.what != "data"])


def use(io: FileIO, root: str) -> None:
    """Every way to change names, kept and not kept."""
    io.write(f"{root}/bucket-0/data", b"1")
    assert io.write_new(f"{root}/snapshot/snapshot-1", b"2")
    assert io.write_new(f"{root}/snapshot/snapshot-2", b"3", after=Sync(root, (f"{root}/bucket-0/data",)))
    assert not io.write_new(f"{root}/snapshot/snapshot-2", b"4", after=Sync(root))
    io.replace(f"{root}/snapshot/LATEST", b"2")
    io.replace(f"{root}/tag/tag-a", b"5", after=Sync(root))
    assert io.sync(Sync(root, (f"{root}/bucket-0/data", f"{root}/gone"))) == [f"{root}/gone"]
    io.delete(f"{root}/bucket-0/data")
    assert io.sync(Sync(root, (f"{root}/bucket-0",))) == []


def watched(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, ...]]:
    """Calls of the operating system that sync or change names, as they come."""
    done: list[tuple[str, ...]] = []

    def also(verb: str, real: Any) -> Any:
        def call(*paths: Any) -> Any:
            result = real(*paths)
            named = (os.readlink(f"/proc/self/fd/{paths[0]}"),) if verb == "sync" else paths
            done.append((verb, *named))
            return result

        return call

    monkeypatch.setattr(fileio.os, "fsync", also("sync", os.fsync))
    monkeypatch.setattr(fileio.os, "link", also("link", os.link))
    monkeypatch.setattr(fileio.os, "unlink", also("unlink", os.unlink))
    monkeypatch.setattr(fileio.os, "replace", also("rename", os.replace))
    return done


def system_call(change: DiskChange) -> tuple[str, ...]:
    """A change of the model in the words of the operating system."""
    verb = "sync" if change.what == "syncdir" else change.what
    return (verb, change.path, change.target) if change.target else (verb, change.path)


def steps(done: list[tuple[str, ...]]) -> list[Any]:
    """The changes of names, and between them the set of what was synced; temporary names without numbers. A
    new file and a new folder are no call of their own here."""
    actual: list[Any] = [set()]
    for verb, *paths in done:
        named = [re.sub(r"\.[^./]+\.tmp$", ".tmp", path) for path in paths]
        if verb == "sync":
            actual[-1].add(named[0])
        elif verb == "mkdir" or (verb == "link" and len(named) == 1 and named[0].endswith((".tmp", "/data"))):
            continue
        else:
            actual += [(verb, named[-1]), set()]
    return actual
