"""Object stores: what is refused, what is read ahead, and that secrets stay secret."""

from __future__ import annotations

import io
import pickle
import threading
from typing import Any

import obstore
import obstore.store
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tablestore as ts
from tablestore.core.errors import InvalidOption, InvalidRequest, Unavailable, Unsupported
from tablestore.io import object_store
from tablestore.io.fileio import LocalFileIO
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.paths import location
from tablestore.io.requests import RangeReader
from tablestore.io.routed import file_io_for
from tablestore.io.s3_options import S3Options

SECRETS = {"s3.access-key": "AKIAVISIBLE", "s3.secret-key": "hush/hush+hush", "s3.session-token": "tok-tok"}


class Overwriting(ObjectStoreFileIO):
    """A store that takes every PUT, conditional or not."""

    def _put(self, store: Any, key: str, data: bytes, mode: str) -> bool:
        return super()._put(store, key, data, "overwrite")


def overwriting(*, guarded: bool) -> Overwriting:
    memory = obstore.store.MemoryStore()
    return Overwriting(guarded=guarded, open_bucket=lambda *_: memory)


def test_a_store_that_overwrites_is_refused() -> None:
    files = overwriting(guarded=False)
    with pytest.raises(Unsupported, match=r"no put-if-absent: set lock\.enabled"):
        files.write_new("s3://b/t/snapshot/snapshot-1", b"1")
    assert files.list("s3://b/t/snapshot", hidden=True) == [], "nothing was written, the probe is gone"


def test_under_a_lock_such_a_store_is_asked_first() -> None:
    files = overwriting(guarded=True)
    assert files.write_new("s3://b/t/snapshot/snapshot-1", b"1")
    assert not files.write_new("s3://b/t/snapshot/snapshot-1", b"2")
    assert files.read("s3://b/t/snapshot/snapshot-1") == b"1"


def test_put_if_absent_can_be_declared_broken() -> None:
    memory = obstore.store.MemoryStore()
    options = S3Options.parse({"s3.conditional-put": "false"})
    files = ObjectStoreFileIO(options, open_bucket=lambda *_: memory)
    with pytest.raises(Unsupported, match="put-if-absent"):
        files.write_new("s3://b/t/snapshot/snapshot-1", b"1")


def test_a_retry_of_the_client_that_meets_its_own_bytes_has_won() -> None:
    memory = obstore.store.MemoryStore()
    files = ObjectStoreFileIO(open_bucket=lambda *_: memory)
    assert files.write_new("s3://b/other", b"")  # the probe is behind us
    obstore.put(memory, "name", b"mine")  # the answer to this one got lost
    assert files.write_new("s3://b/name", b"mine")
    assert not files.write_new("s3://b/name", b"yours")


@pytest.mark.parametrize("prefix", ["s3.", "s3a.", "fs.s3a."])
def test_options_have_several_spellings(prefix: str) -> None:
    given = {
        f"{prefix}endpoint": "http://h:1",
        f"{prefix}access.key": "k",
        f"{prefix}path.style.access": "true",
    }
    assert S3Options.parse(given) == S3Options(endpoint="http://h:1", access_key="k", path_style=True)


def test_a_flag_is_true_or_false() -> None:
    with pytest.raises(InvalidOption, match=r"s3\.path\.style\.access.*true or false"):
        S3Options.parse({"s3.path.style.access": "maybe"})


def test_secrets_are_in_no_repr_and_no_pickle() -> None:
    files = file_io_for("s3://b/lake", {**SECRETS, "s3.endpoint": "http://h:1"})
    packed = pickle.dumps(files)
    for secret in SECRETS.values():
        assert secret not in repr(files)
        assert secret.encode() not in packed
    again = pickle.loads(packed)
    assert again._objects.options == S3Options.parse({**SECRETS, "s3.endpoint": "http://h:1"})


def test_secrets_are_in_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    options = S3Options.parse({**SECRETS, "s3.endpoint": "http://127.0.0.1:1/hush/hush+hush"})
    monkeypatch.setattr(object_store, "_RETRY", {**object_store._RETRY, "max_retries": 0})
    with pytest.raises(Unavailable, match=r"s3://b/x: .*\*\*\*") as raised:
        ObjectStoreFileIO(options).read("s3://b/x")
    assert not any(secret in str(raised.value) for secret in SECRETS.values())


@pytest.mark.parametrize(
    ("given", "plain"),
    [
        ("s3://bucket//a/./b/", "s3://bucket/a/b"),
        ("s3a://bucket", "s3a://bucket"),
        ("file:///tmp/a%20b", "/tmp/a b"),
        ("file:/tmp/x", "/tmp/x"),
    ],
)
def test_locations_are_made_plain(given: str, plain: str) -> None:
    assert location(given) == plain


@pytest.mark.parametrize("given", ["s3://", "s3:///x", "s3://bucket/../other", "s3://../x", " "])
def test_locations_that_name_no_place_are_refused(given: str) -> None:
    with pytest.raises(InvalidRequest):
        location(given)


def test_other_schemes_are_refused_by_name() -> None:
    with pytest.raises(Unsupported, match="hdfs://"):
        location("hdfs://host/lake")


class CountedFetch:
    """A fetch that remembers what it was asked for."""

    def __init__(self, data: bytes) -> None:
        self.data, self.asked = data, list[tuple[int, int]]()

    def __call__(self, start: int, length: int) -> bytes:
        self.asked.append((start, length))
        return self.data[start : start + length]


def reader_over(data: bytes) -> tuple[RangeReader, CountedFetch]:
    fetch = CountedFetch(data)
    return RangeReader(fetch, len(data), data[-RangeReader.TAIL :]), fetch


@given(
    size=st.integers(0, 300_000),
    reads=st.lists(st.tuples(st.integers(0, 310_000), st.integers(-1, 200_000)), max_size=12),
)
def test_any_reads_give_the_bytes_of_the_file(size: int, reads: list[tuple[int, int]]) -> None:
    data = bytes(i * 31 % 251 for i in range(size))
    ours, plain = reader_over(data)[0], io.BytesIO(data)
    for at, length in reads:
        assert ours.seek(at) == plain.seek(at)
        assert ours.read(length) == plain.read(length)


def test_a_sequential_read_takes_few_requests() -> None:
    ours, fetch = reader_over(bytes(20 << 20))
    while ours.read(4096):
        pass
    assert len(fetch.asked) < 15
    assert max(length for _, length in fetch.asked) <= RangeReader.MAX_BLOCK


def test_a_footer_takes_no_request_and_a_jump_reads_little_more_than_it_asks() -> None:
    ours, fetch = reader_over(bytes(20 << 20))
    ours.seek(-1000, io.SEEK_END)
    ours.read(1000)
    assert fetch.asked == []
    ours.seek(5 << 20)
    ours.read(100_000)
    ours.seek(9 << 20)
    ours.read(10)
    assert fetch.asked == [(5 << 20, 100_000), (9 << 20, RangeReader.MIN_BLOCK)]


def test_a_short_answer_is_an_error() -> None:
    ours = RangeReader(lambda start, length: b"x", 1 << 20)
    with pytest.raises(OSError, match="1 bytes of"):
        ours.read(100)


class Together:
    """obstore's functions, of which the first two reads of files of a name wait for each other."""

    def __init__(self, part: str) -> None:
        self.part, self.left, self.lock = part, 2, threading.Lock()
        self.both = threading.Barrier(2, timeout=120)

    def __getattr__(self, name: str) -> Any:
        return getattr(obstore, name)

    def get(self, store: Any, key: str, **named: Any) -> Any:
        with self.lock:
            waits = self.part in key and self.left > 0
            self.left -= waits
        if waits:
            self.both.wait()
        return obstore.get(store, key, **named)


@pytest.mark.parametrize("part", ["bucket-", "manifest/manifest-list"])
def test_reads_of_a_scan_are_on_their_way_together(part: str, monkeypatch: pytest.MonkeyPatch) -> None:
    memory, client = obstore.store.MemoryStore(), Together("nothing")
    monkeypatch.setattr(object_store, "_client", lambda: client)
    lake = ts.connect("s3://b/lake", io=ObjectStoreFileIO(open_bucket=lambda *_: memory))
    table = lake.create_table("d.t", schema={"k": ts.BIGINT}, primary_key=["k"], options={"bucket": 4})
    table.write([{"k": k} for k in range(100)])
    client.part = part
    again = ts.connect("s3://b/lake", io=ObjectStoreFileIO(open_bucket=lambda *_: memory))
    assert again.table("d.t").scan().count() == 100
    assert len(again.table("d.t").scan().to_arrow()) == 100
    assert client.left == 0


def test_a_local_store_names_what_an_object_needs() -> None:
    with pytest.raises(Unsupported, match=r"s3://b/x from here.*s3\.endpoint"):
        LocalFileIO().read("s3://b/x")
