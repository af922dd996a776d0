"""Where the files of a table are: the only module that joins names to locations (FORMAT.md 1.1).

Layout as in Paimon:
`<warehouse>/<db>.db/<table>/{schema,snapshot,manifest,index,statistics,tag,branch,consumer,changelog}` and
`[<key>=<value>/…]bucket-<n>/<file>`. Names that come from data are escaped; names that come from users are
checked. With `data-file.external-paths` (FORMAT.md 1.3) new data files go in turn under the roots that the
option names, in the same tail; the manifest stores the whole path. Whoever wrote the table may have set the
option, so files are written to and read from only those roots that the caller named, too (`roots=[…]`).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import unquote, urlparse

from tablestore.core.errors import Corrupt, InvalidOption, InvalidRequest, Unsupported
from tablestore.core.options.table_options import TableOptions

EXTERNAL_PATHS = "data-file.external-paths"
_STRATEGIES = ("none", "round-robin", "specific-fs", "weight-robin")
_ESCAPED = set(map(chr, range(0x20))) | {"\x7f"} | set("\"#%'*/:=?\\{}[]^")
_NAME = re.compile(r"[^\x00-\x1f/\\:*?\"<>|$@`]{1,200}")
_LONGEST_NAME = 200  # bytes; 255 is what file systems take, and temporary files add `.`, a uuid and `.tmp`
_LONGEST_COMPONENT, _LONGEST_PATH = 255, 4096 - 256  # bytes; leaves room for names of files
POSTPONE_BUCKET = -2
_LAST_SUFFIXES = frozenset({"gz", "bz2", "deflate", "snappy", "lz4", "zst"})
DROPPED = ".dropped"  # directory of tables that are being dropped; in object stores the mark of such a table
DEAD_LETTERS = "cdc_dead_letters"  # table of a database, of rows that captures could not take
OBJECT_SCHEMES = ("s3", "s3a")
_OBJECT_PREFIXES = tuple(f"{scheme}://" for scheme in OBJECT_SCHEMES)


def location(path: str | os.PathLike[str]) -> str:
    """An absolute plain path for a local path or `file:` URI; `s3://bucket/…` without needless slashes.

    Other schemes are refused by name, and so is `..` in a bucket.
    """
    text = os.fspath(path) if isinstance(path, str | os.PathLike) else None
    if not isinstance(text, str) or not text.strip():
        raise InvalidRequest(f"a location is a path or URI, not {path!r}")
    scheme, colon, rest = text.partition("://")
    if text.startswith("file:"):
        text = unquote(urlparse(text).path)
    elif colon and scheme in OBJECT_SCHEMES:
        bucket, *parts = [p for p in rest.split("/") if p not in ("", ".")] or [""]
        if "@" in bucket or ":" in bucket:
            raise InvalidRequest(
                f"{scheme}://… names a user: keys are options, s3_access_key=…, s3_secret_key=…"
            )
        if not bucket or rest.startswith("/") or ".." in (bucket, *parts):
            raise InvalidRequest(f"{text!r} names no place in a bucket; write {scheme}://bucket/path")
        return f"{scheme}://{'/'.join([bucket, *parts])}"
    elif colon:
        raise Unsupported(
            f"{scheme}:// locations",
            f"local paths and {', '.join(s + '://' for s in OBJECT_SCHEMES)} only: a commit needs a store "
            "that makes a file under a name once; option s3.endpoint reaches those that speak S3",
        )
    return _possible(os.path.abspath(os.path.expanduser(text)))


def _possible(path: str) -> str:
    """The local path; raises InvalidRequest for one that no file system takes."""
    try:
        parts = [len(part) for part in path.encode().split(b"/")]
    except UnicodeEncodeError:
        raise InvalidRequest(f"the location {path!r} holds half of a character") from None
    if "\0" in path or max(parts) > _LONGEST_COMPONENT or sum(parts) + len(parts) > _LONGEST_PATH:
        raise InvalidRequest(
            f"no file system takes the location {path[:200]!r}: names have up to {_LONGEST_COMPONENT} bytes, "
            f"the whole path up to {_LONGEST_PATH}, without NUL"
        )
    return path


def warehouse_location(path: str | os.PathLike[str]) -> str:
    """The location of a warehouse; raises InvalidRequest for a file and for a table's own directory."""
    place = location(path)
    if os.path.isfile(place):
        raise InvalidRequest(f"{place} is a file; a lake is a directory (it is made if it is not there)")
    if os.path.exists(os.path.join(place, "schema", "schema-0")):
        raise InvalidRequest(f"{place} is a table, not a lake: tablestore.open(…) opens it")
    return place


def is_object_location(path: str) -> bool:
    """Whether a location is in an object store."""
    return path.startswith(_OBJECT_PREFIXES)


def join(*parts: str) -> str:
    """Parts joined by one slash each."""
    return "/".join([p.rstrip("/") if i == 0 else p.strip("/") for i, p in enumerate(parts) if p])


def checked_name(name: str, what: str) -> str:
    """A database, table, branch or tag name that cannot leave its directory.

    Raises InvalidRequest for empty names, separators, `..`, control characters, `$` and quotes.
    """
    if (
        not isinstance(name, str)
        or not _NAME.fullmatch(name)
        or not fits_a_file(name)
        or name.strip(". ") == ""
        or name.startswith(".")
    ):
        raise InvalidRequest(
            f"{what} name {name!r} cannot be used: no '/', '\\', ':', '$', quotes or leading dot, "
            f"up to {_LONGEST_NAME} bytes"
        )
    return name


def fits_a_file(name: str) -> bool:
    """Whether a file system takes a name, with the prefix and suffix that temporary files add."""
    try:
        return len(name.encode()) <= _LONGEST_NAME and "\0" not in name
    except UnicodeEncodeError:  # half of a character
        return False


def escape(text: str) -> str:
    """A partition name or value as one path component (`%XX` for what a path cannot hold; FORMAT.md 1.2)."""
    return "".join(f"%{ord(c):02X}" if c in _ESCAPED else c for c in text)


def unescaped(text: str) -> str:
    """The name or value that `escape` made one component of a path."""
    return unquote(text)


@dataclass(frozen=True, slots=True)
class TablePaths:
    """Locations inside one table (of one branch)."""

    root: str
    branch: str = "main"
    data_directory: str = ""

    def _refs(self, *parts: str) -> str:
        return join(
            self.root, *(() if self.branch == "main" else ("branch", f"branch-{self.branch}")), *parts
        )

    @property
    def schema_dir(self) -> str:
        return self._refs("schema")

    @property
    def snapshot_dir(self) -> str:
        return self._refs("snapshot")

    @property
    def tag_dir(self) -> str:
        return self._refs("tag")

    @property
    def consumer_dir(self) -> str:
        return self._refs("consumer")

    @property
    def changelog_dir(self) -> str:
        return self._refs("changelog")

    @property
    def history_dir(self) -> str:
        """Directory of what expired snapshots did: files of this engine only."""
        return self._refs("tablestore", "history")

    def damaged(self, moment: str, path: str) -> str:
        """Where a damaged file is moved to, by its path in the table: no engine looks there."""
        return join(self.root, "tablestore", "damaged", moment, path.removeprefix(self.root))

    @property
    def positions_dir(self) -> str:
        """Directory of stream positions that outlive their snapshots: files of this engine only."""
        return self._refs("tablestore", "positions")

    @property
    def synced(self) -> str:
        """The file that names the newest snapshot that is synced with all its files
        (`write/commit/synced.py`)."""
        return self._refs("tablestore", "synced")

    @property
    def checksums_dir(self) -> str:
        """Directory of checksums of data files, which branches share: files of this engine only."""
        return join(self.root, "tablestore", "checksums")

    @property
    def writers_dir(self) -> str:
        """Directory of the signs of open writers, of all branches: files of this engine only."""
        return join(self.root, "tablestore", "writers")

    @property
    def branch_dir(self) -> str:
        """Directory of all branches."""
        return join(self.root, "branch")

    @property
    def refs_dir(self) -> str:
        """Directory of this branch's own files: the table's for `main`."""
        return self._refs()

    def tag_success(self, name: str) -> str:
        """The success file of a tag (`tag.create-success-file`)."""
        return join(self.tag_dir, "tag-success-file", f"{inside(name)}_SUCCESS")

    def tag(self, name: str) -> str:
        return join(self.tag_dir, f"tag-{inside(name)}")

    def changelog(self, snapshot_id: int) -> str:
        return join(self.changelog_dir, f"changelog-{snapshot_id}")

    def statistics(self, name: str) -> str:
        return join(self.root, "statistics", inside(name))

    def schema(self, schema_id: int) -> str:
        return join(self.schema_dir, f"schema-{schema_id}")

    def snapshot(self, snapshot_id: int) -> str:
        return join(self.snapshot_dir, f"snapshot-{snapshot_id}")

    def manifest(self, name: str) -> str:
        return f"{self.root.rstrip('/')}/manifest/{inside(name)}"  # of each manifest at each commit

    def index(self, name: str) -> str:
        return join(self.root, "index", inside(name))

    def bucket_dir(self, partition: Sequence[tuple[str, str]], bucket: int) -> str:
        """Directory of one bucket; `partition` is (key, text of the value) in partition-key order."""
        dirs = [_partition_directory(k, v, self.root) for k, v in partition]
        name = "bucket-postpone" if bucket == POSTPONE_BUCKET else f"bucket-{bucket}"
        return join(self.root, self.data_directory, *dirs, name)


def _partition_directory(key: str, value: str, root: str) -> str:
    """`key=value`; raises InvalidRequest where that name is too long for file systems."""
    name = f"{escape(key)}={escape(value)}"
    size = len(name.encode())
    if size > _LONGEST_COMPONENT and not is_object_location(root):
        raise InvalidRequest(
            f"the value {value[:40]!r}… of partition column {key!r} takes {size} bytes as the name of a "
            f"directory; file systems take {_LONGEST_COMPONENT}"
        )
    return name


def inside(name: str) -> str:
    """The file name read from metadata; raises Corrupt if it could point outside its directory."""
    if not is_plain(name):
        raise Corrupt(name, "a file name in the table's metadata points outside its directory")
    return name


def is_plain(name: object) -> bool:
    """Whether a text names a file inside its directory."""
    return (
        isinstance(name, str)
        and name not in ("", ".", "..")
        and "/" not in name
        and "\\" not in name
        and "\0" not in name
    )


@dataclass(frozen=True)
class ExternalPaths:
    """Roots that new files go to in turn, each as often as it is listed; empty: they stay inside the
    table."""

    roots: tuple[str, ...] = ()

    @classmethod
    def of(cls, options: TableOptions) -> ExternalPaths:
        """The roots that the options choose; raises InvalidOption for ones that cannot be used."""
        strategy = options.external_strategy
        if not options.external_paths or strategy == "none":
            return cls()
        if strategy not in _STRATEGIES:
            raise Unsupported(f"{EXTERNAL_PATHS}.strategy = {strategy}", f"known: {', '.join(_STRATEGIES)}")
        roots = external_roots(options.external_paths)
        for root in roots:
            if not urlparse(root).scheme:
                raise InvalidOption(
                    f"option {EXTERNAL_PATHS!r} names {root!r}; write it with a scheme: 'file:{root}'"
                )
        if strategy == "specific-fs":
            wanted = options.external_specific_fs
            roots = tuple(r for r in roots if urlparse(r).scheme == wanted)
            if not roots:
                raise InvalidOption(
                    f"option {EXTERNAL_PATHS!r} names no root of '{EXTERNAL_PATHS}.specific-fs' = {wanted!r}"
                )
        if strategy == "weight-robin" and len(roots) > 1:
            roots = _weighted(roots, options.external_weights)
        return cls(roots)

    def require(self, allowed: Iterable[str]) -> None:
        """Raise InvalidRequest unless each root lies in one of the places that the caller named."""
        places = _normals(allowed)
        for root in dict.fromkeys(self.roots):
            if not any(_below(_normal(root), place) for place in places):
                raise InvalidRequest(f"the table keeps its data files outside its directory: {_remedy(root)}")

    def place(self, number: int, tail: str, name: str) -> str:
        """The whole path of the new file `name` of the bucket `tail`; `number` chooses the root."""
        return join(_normal(self.roots[number % len(self.roots)]), tail, inside(name))

    @cached_property
    def used(self) -> bool:
        """Whether files go outside the table."""
        return bool(self.roots)


def _weighted(roots: tuple[str, ...], weights: tuple[str, ...]) -> tuple[str, ...]:
    """Each root as often as its weight says."""
    if len(weights) != len(roots) or not all(w.isdigit() and 0 < int(w) <= 1000 for w in weights):
        raise InvalidOption(
            f"option '{EXTERNAL_PATHS}.weights' must be one whole number from 1 to 1000 a root"
        )
    return tuple(root for root, weight in zip(roots, weights, strict=True) for _ in range(int(weight)))


def external_roots(text: str) -> tuple[str, ...]:
    """The roots that the option lists."""
    return tuple(part.strip() for part in text.split(",") if part.strip())


def checked_external(path: str, name: str, *, allowed: Iterable[str], option: str | None) -> str:
    """Where the file of a manifest's external path is: `name` below a place of `allowed`.

    Raises InvalidRequest where the caller named no such place but the table's `option` does, else Corrupt.
    """
    normal = _normal(path)
    parts = normal.split("/")
    if {".", ".."}.intersection(parts) or parts[-1] != inside(name):
        raise Corrupt(path, f"the external path of {name} points outside the table")
    if not any(_below(normal, place) for place in _normals(allowed)):
        for root in external_roots(option or ""):
            if _below(normal, _normal(root)):
                raise InvalidRequest(f"{name} lies outside the table's directory: {_remedy(root)}")
        remedy = _remedy(normal.rpartition("/")[0])
        raise Corrupt(path, f"the external path of {name} points outside the table: {remedy}")
    return local_external(normal)


def _remedy(root: str) -> str:
    place = local_external(_normal(root))
    ways = f"in tablestore.open or connect, --roots {place} for tablestore open"
    return f"if you trust {place}, name it: roots=[{place!r}] {ways}"


def _normals(places: Iterable[str]) -> list[str]:
    return [_normal(place) for place in places]


def _below(normal: str, root: str) -> bool:
    return normal.startswith(f"{root.rstrip('/')}/") or normal == root


def local_external(path: str) -> str:
    """The path in the form that the store takes: without a scheme for local files."""
    return path.removeprefix("file:")


def _normal(path: str) -> str:
    """One spelling for `file:/x`, `file:///x` and `/x`, as Paimon writes it."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return "file:" + _squeezed(path)
    if scheme == "file":
        return "file:" + _squeezed(rest)
    host, _, tail = rest.lstrip("/").partition("/")
    return f"{scheme}://{host}{_squeezed('/' + tail)}" if tail else f"{scheme}://{host}"


def _squeezed(path: str) -> str:
    return "/" + "/".join(p for p in path.split("/") if p)


def file_format(name: str) -> str:
    """The format in a data file's name: its last suffix, or the one before that of a compression."""
    parts = name.lower().split(".")
    if len(parts) > 2 and parts[-1] in _LAST_SUFFIXES:
        return parts[-2]
    return parts[-1] if len(parts) > 1 else ""
