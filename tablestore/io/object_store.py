"""ObjectStoreFileIO: tables in an S3-compatible store, through obstore.

Put-if-absent is one conditional PUT (`If-None-Match: *`), without a rename. A store that ignores the
condition would lose commits silently, so the first such write to a bucket tries it on a probe object; where
the store overwrites, the write is refused, unless a catalog's lock protects it (`guarded`). Directories are
prefixes; an empty one is kept by a hidden marker object. Reads fetch ranges (`RangeReader`), writes are
multipart: an object appears when it is complete. Memory: one read-ahead block a reader, `_PART` × `_PARTS` a
writer. Safe to share between threads; a process made by fork must not use it after its parent did (the
client's threads are gone there): spawn instead.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import threading
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pyarrow as pa

from tablestore.core.env import SYSTEM, Env
from tablestore.core.errors import NotFound, Unavailable, Unsupported
from tablestore.core.extras import required
from tablestore.io.fileio import FileStatus, Sync
from tablestore.io.requests import CountedClient, ObjectWriter, RangeReader, Requests
from tablestore.io.s3_options import S3Options

_LOCATION = re.compile(r"([a-z][a-z0-9+.-]*)://([^/]+)/*(.*)")
_MARKER = ".directory"
_PART = 8 << 20
_PARTS = 4
_BULK = 1000
_MAX_AT_ONCE = 16 << 20
_RETRY = {
    "max_retries": 6,
    "retry_timeout": timedelta(seconds=90),
    "backoff": {"init_backoff": timedelta(milliseconds=100), "max_backoff": timedelta(seconds=8), "base": 2},
}


@functools.cache
def _client() -> Any:
    """The module obstore, imported when the first object store is used."""
    required("obstore.exceptions", by="object stores")
    return required("obstore", by="object stores")


def open_s3(bucket: str, options: S3Options) -> Any:
    """The client of one bucket, with retries and backoff."""
    endpoint = options.endpoint or os.environ.get("AWS_ENDPOINT") or os.environ.get("AWS_ENDPOINT_URL") or ""
    plain = {"allow_http": endpoint.startswith("http://")}
    limits = {"connect_timeout": timedelta(seconds=10), "timeout": timedelta(seconds=60)}
    return required("obstore.store", by="object stores").S3Store(
        bucket, client_options={**plain, **limits}, retry_config=_RETRY, **options.client_arguments()
    )


class ObjectStoreFileIO:
    """Files as objects. `guarded`: a lock protects every `write_new`."""

    def __init__(
        self,
        options: S3Options | None = None,
        env: Env = SYSTEM,
        *,
        guarded: bool = False,
        open_bucket: Callable[[str, S3Options], Any] = open_s3,
    ) -> None:
        self.options, self.guarded = options or S3Options(), guarded
        self._env, self._open_bucket = env, open_bucket
        self._lock = threading.Lock()  # protects the three below
        self._buckets: dict[tuple[int, str], Any] = {}
        self._atomic: dict[str, bool] = {}
        self._counted: CountedClient | None = None

    def __reduce__(self) -> Any:
        return _reopened, (self.options, self.guarded, self._env)

    def __repr__(self) -> str:
        return f"ObjectStoreFileIO({self.options!r})"

    def requests(self) -> Requests:
        """What this process asked of the store so far."""
        return self._client.requests

    @property
    def _client(self) -> CountedClient:
        with self._lock:
            if self._counted is None:
                self._counted = CountedClient(_client(), _PART)
            return self._counted

    def with_guard(self) -> ObjectStoreFileIO:
        """The same store for callers that lock around every `write_new`."""
        return ObjectStoreFileIO(self.options, self._env, guarded=True, open_bucket=self._open_bucket)

    def read(self, path: str) -> bytes:
        """All bytes of an object."""
        store, key = self._at(path)
        with self._trouble(path):
            return bytes(self._client.get(store, key).bytes())

    def open_input(self, path: str) -> pa.NativeFile:
        """A random-access Arrow file. Opening is one request, which also reads the object's tail."""
        store, key = self._at(path)
        client = self._client

        def fetch(start: int, length: int) -> bytes:
            with self._trouble(path):  # in pieces: each is a request with a time limit
                steps = range(start, start + length, _MAX_AT_ONCE)
                ends = [min(at + _MAX_AT_ONCE, start + length) for at in steps]
                got = [client.get_range(store, key, start=a, end=b) for a, b in zip(steps, ends, strict=True)]
                return bytes(got[0]) if len(got) == 1 else b"".join(map(bytes, got))

        with self._trouble(path):
            size, tail = self._tail(store, key)
        return pa.PythonFile(RangeReader(fetch, size, tail), mode="r")

    def _tail(self, store: Any, key: str) -> tuple[int, bytes]:
        """(size of an object, its last bytes), by one request (two for an empty object)."""
        client = self._client
        try:
            got = client.get(store, key, options={"range": {"suffix": RangeReader.TAIL}})
        except client.exceptions.GenericError:  # an empty object has no range
            got = client.get(store, key)
        return int(got.meta["size"]), bytes(got.bytes())

    def open_output(self, path: str) -> pa.NativeFile:
        """A new object for writing, which appears when it is closed. The name must be fresh."""
        store, key = self._at(path)
        trouble = functools.partial(self._writing, path)
        with trouble():
            sink = self._client.open_writer(store, key, max_concurrency=_PARTS)
        return pa.PythonFile(ObjectWriter(sink, trouble), mode="w")

    def write(self, path: str, data: bytes) -> None:
        """Write a whole object."""
        store, key = self._at(path)
        with self._trouble(path):
            self._put(store, key, data, "overwrite")

    def replace(self, path: str, data: bytes, *, after: Sync | None = None) -> None:
        """Set the content of a hint: an object changes as a whole."""
        self.write(path, data)

    def sync(self, what: Sync) -> list[str]:
        """Nothing to do: a store that has answered a write keeps the object."""
        return []

    def write_new(self, path: str, data: bytes, *, after: Sync | None = None) -> bool:
        """Put if absent: True iff this call made the object (I1). `after` needs nothing: answered writes are
        kept.

        A retry inside the client may find its own bytes, which counts as made; so two callers that write
        the same bytes may both get True. Raises Unsupported where the store overwrites and there is no lock.
        """
        store, key = self._at(path)
        if not self._creates(path):
            if not self.guarded:
                raise Unsupported(
                    f"commits to {path.rpartition('/')[0]}",
                    "this store has no put-if-absent: set lock.enabled with a jdbc or hive metastore",
                )
            if self._is_object(store, key, path):
                return False
            self.write(path, data)
            return True
        with self._trouble(path):
            if self._put(store, key, data, "create"):
                return True
        try:
            return self.read(path) == data
        except FileNotFoundError:
            return False  # there a moment ago, removed since

    def _creates(self, path: str) -> bool:
        """Whether the bucket of `path` honours a conditional PUT; tried once per process."""
        if self.options.conditional_put is not None:
            return self.options.conditional_put
        bucket = _parts(path)[1]
        with self._lock:
            honours = self._atomic.get(bucket)
        if honours is None:
            probe = f"{path.rpartition('/')[0]}/.probe-{self._env.uuid()}.tmp"
            store, key = self._at(probe)
            with self._trouble(probe):
                honours = self._put(store, key, b"1", "create") and not self._put(store, key, b"2", "create")
            self.delete(probe)
            with self._lock:
                self._atomic[bucket] = honours
        return honours

    def _put(self, store: Any, key: str, data: bytes, mode: str) -> bool:
        """False iff `mode` is create and the object exists; raises what the store says of an unknown mode."""
        client = self._client
        try:
            client.put(store, key, data, mode=mode)
        except (client.exceptions.AlreadyExistsError, client.exceptions.PreconditionError):
            return False
        except client.exceptions.NotSupportedError:
            return False
        return True

    def delete(self, path: str, *, below: str | None = None) -> None:
        """Remove an object; absent is fine."""
        store, key = self._at(path)
        with self._trouble(path), contextlib.suppress(FileNotFoundError):
            self._client.delete(store, key)

    def delete_tree(self, path: str) -> None:
        """Remove all objects below a prefix, a page at a time; absent is fine."""
        store, key = self._at(path)
        with self._trouble(path):
            for page in self._client.list(store, prefix=key, chunk_size=_BULK):
                self._client.delete(store, [o["path"] for o in page])

    def delete_empty(self, path: str) -> bool:
        """Remove the marker of a prefix that holds nothing else; False if there is more, or no marker."""
        store, key = self._at(path)
        with self._trouble(path):
            below = [o["path"] for o in next(iter(self._client.list(store, prefix=key, chunk_size=2)), [])]
        if below != [f"{key}/{_MARKER}"]:
            return False
        self.delete(f"{path.rstrip('/')}/{_MARKER}")
        return True

    def list(self, path: str, *, hidden: bool = False) -> list[FileStatus]:
        """Entries directly below a prefix by name, with `hidden` also temporary ones; none if absent."""
        store, key = self._at(path)
        with self._trouble(path):
            listing = self._client.list_with_delimiter(store, prefix=key or None)
        names = [p.rstrip("/").rpartition("/")[2] for p in listing["common_prefixes"]]
        entries = [FileStatus(n, 0, 0, True) for n in names]
        for o in listing["objects"]:
            name = o["path"].rpartition("/")[2]
            if o["path"].rstrip("/") != key:  # not the marker other programs leave for a directory
                entries.append(FileStatus(name, o["size"], int(o["last_modified"].timestamp() * 1000)))
        shown = (e for e in entries if e.name != _MARKER and (hidden or not e.name.startswith(".")))
        return sorted(shown, key=lambda s: s.name)

    def exists(self, path: str) -> bool:
        """Whether an object of that name is there."""
        store, key = self._at(path)
        return self._is_object(store, key, path)

    def is_dir(self, path: str) -> bool:
        """Whether anything is below that prefix."""
        store, key = self._at(path)
        with self._trouble(path):
            return any(len(page) for page in self._client.list(store, prefix=key, chunk_size=1))

    def _is_object(self, store: Any, key: str, path: str) -> bool:
        try:
            with self._trouble(path):
                self._head(store, key)
        except FileNotFoundError:
            return False
        return True

    def _head(self, store: Any, key: str) -> Any:
        """Facts of an object. Answers to HEAD have no text: where one is refused, GET asks why."""
        client = self._client
        try:
            return client.head(store, key)
        except client.exceptions.GenericError as e:
            if "400 Bad Request" in str(e):
                client.get_range(store, key, start=0, end=1)
            raise

    def size(self, path: str) -> int:
        """Bytes of an object."""
        store, key = self._at(path)
        with self._trouble(path):
            return int(self._head(store, key)["size"])

    def make_dir(self, path: str) -> None:
        """Keep an empty directory visible by a hidden object in it."""
        self.write(f"{path.rstrip('/')}/{_MARKER}", b"")

    def move(self, path: str, target: str) -> None:
        """Move all objects below a prefix, or the one of that name, by copying. Not atomic, so nobody may
        write there meanwhile. Raises FileNotFoundError where nothing is there.

        `schema/` is copied last and removed first: a half-moved table is seen at its old place only.
        """
        store, key = self._at(path)
        onto, new = self._at(target)
        if _parts(path)[:2] != _parts(target)[:2]:
            raise Unsupported(f"moving {path} to another bucket")
        with self._trouble(path):
            keys = [
                o["path"] for page in self._client.list(store, prefix=key, chunk_size=_BULK) for o in page
            ]
            keys = sorted(keys, key=lambda k: k.startswith(f"{key}/schema/")) or [key]
            for k in keys:
                self._client.copy(onto, k, new + k.removeprefix(key), overwrite=True)
            for at in range(len(keys), 0, -_BULK):
                self._client.delete(store, keys[max(at - _BULK, 0) : at])

    def _at(self, path: str) -> tuple[Any, str]:
        """The client and key of a path."""
        _, bucket, key = _parts(path)
        with self._lock:
            store = self._buckets.get((os.getpid(), bucket))
            if store is None:
                store = self._buckets[os.getpid(), bucket] = self._open_bucket(bucket, self.options)
        return store, key.rstrip("/")

    @contextlib.contextmanager
    def _trouble(self, path: str) -> Iterator[None]:
        """Turn errors of the client into `Unavailable`, except for absent objects; without any secret."""
        errors = self._client.exceptions
        try:
            yield
        except FileNotFoundError as e:
            if "NoSuchBucket" in str(e):
                raise NotFound(f"{path}: there is no such bucket") from None
            raise FileNotFoundError(f"{path}: no such object") from e
        except Unavailable:
            raise
        except (errors.BaseError, OSError) as e:  # a writer of the client raises OSError
            said = self._first_line(e)
            if any(code in said for code in _EXPIRED):
                raise Unavailable(f"{path}: {_RENEW} ({said})") from None
            refused = isinstance(e, errors.UnauthenticatedError | errors.PermissionDeniedError)
            if refused or "403 Forbidden" in said or "401 Unauthorized" in said:
                raise Unavailable(f"{path}: access refused; {_KEYS} ({said})") from None
            raise Unavailable(f"{path}: {said}") from None

    @contextlib.contextmanager
    def _writing(self, path: str) -> Iterator[None]:
        """The same where an absent object is trouble too: the parts of one that is being written."""
        try:
            with self._trouble(path):
                yield
        except FileNotFoundError as e:
            raise Unavailable(f"{path}: its parts are gone from the store: {e}; write it again") from None

    def _first_line(self, error: Exception) -> str:
        return self.options.scrub(str(error).strip().partition("\n")[0])


_KEYS = "check s3.access-key, s3.secret-key and s3.region"
_EXPIRED = ("ExpiredToken", "TokenRefreshRequired", "RequestExpired")
_RENEW = (
    "the store's credentials have expired: connect again with new s3.access-key, s3.secret-key and "
    "s3.session-token; without them those of the machine's role are used, which renew themselves"
)


def _parts(path: str) -> tuple[str, str, str]:
    """Scheme, bucket and key."""
    match = _LOCATION.fullmatch(path)
    if match is None:
        raise Unavailable(f"{path}: not the name of an object (s3://bucket/…)")
    return match[1], match[2], match[3]


def _reopened(options: S3Options, guarded: bool, env: Env) -> ObjectStoreFileIO:
    return ObjectStoreFileIO(options, env, guarded=guarded)
