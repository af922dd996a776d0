"""FileSpec: in which format, with which codec and statistics data files of one kind are written
(FORMAT.md 1.4, 9.3).

A kind is a level of the LSM tree, or changelog files. A file's format is the last suffix of its name, or the
one before that of a compression. Pure. Used by writers and readers of data files.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tablestore.core.errors import InvalidOption
from tablestore.core.options.table_options import TableOptions
from tablestore.core.options.values import DATA_FORMATS

_COMPRESSION_SUFFIXES = {"gzip": "gz", "bzip2": "bz2", "zstd": "zst", "none": ""}
_LAST_SUFFIXES = frozenset({"gz", "bz2", "deflate", "snappy", "lz4", "zst"})


@dataclass(frozen=True, slots=True)
class FileSpec:
    """How files of one kind are written. `suffix` is the end of their names; `extra` are row-tracking columns
    of append tables, whose files are not `keyed`; `compression_option` says whence the codec."""

    format: str
    compression: str
    zstd_level: int
    block_bytes: int | None
    stats_mode: str
    suffix: str
    indexed: bool
    keyed: bool
    extra: tuple[str, ...] = ()
    compression_option: str = field(default="file.compression", compare=False)

    @classmethod
    def of(
        cls,
        options: TableOptions,
        *,
        level: int = 0,
        changelog: bool = False,
        keyed: bool = True,
        extra: tuple[str, ...] = (),
    ) -> FileSpec:
        """The form of files at `level`, or of changelog files; raises InvalidOption for unknown formats.

        Tables without primary key have no levels.
        """
        formats = dict(options.file_format_per_level) if keyed else {}
        codecs = dict(options.file_compression_per_level) if keyed else {}
        modes = dict(options.stats_mode_per_level) if keyed else {}
        form = formats.get(level, options.file_format)
        codec = codecs.get(level, options.file_compression)
        codec_option = "file.compression.per.level" if level in codecs else "file.compression"
        mode = modes.get(level, options.stats_mode)
        if changelog:
            form = options.changelog_file_format or form
            if options.changelog_file_compression:
                codec, codec_option = options.changelog_file_compression, "changelog-file.compression"
            mode = options.changelog_file_stats_mode or mode
        if form not in DATA_FORMATS:
            allowed = ", ".join(DATA_FORMATS)
            raise InvalidOption(f"option 'file.format' is {form!r}; it must be one of {allowed}")
        suffix = _suffix(form, options)
        rest = options.zstd_level, options.row_group_bytes, mode, suffix, not changelog, keyed, extra
        return cls(form, codec, *rest, codec_option)

    @classmethod
    def all_of(cls, options: TableOptions) -> set[FileSpec]:
        """The forms of all files that options speak of: of each level and of changelogs."""
        per_level = (*options.file_format_per_level, *options.file_compression_per_level)
        levels = {0, *(level for level, _ in per_level)}
        return {cls.of(options, level=n, changelog=c) for n in levels for c in (False, True)}


def _suffix(form: str, options: TableOptions) -> str:
    if not options.suffix_with_compression:
        return f".{form}"
    named = _COMPRESSION_SUFFIXES.get(options.file_compression, options.file_compression)
    return f".{named}.{form}" if named else f".{form}"


def file_format(name: str) -> str:
    """The format in a data file's name: its last suffix, or the one before that of a compression."""
    parts = name.lower().split(".")
    if len(parts) > 2 and parts[-1] in _LAST_SUFFIXES:
        return parts[-2]
    return parts[-1] if len(parts) > 1 else ""
