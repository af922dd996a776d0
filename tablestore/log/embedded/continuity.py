"""Is an embedded log the one that a snapshot was made from, and does it go as far; how it goes on if not.

A snapshot names its offsets and the last transaction that is in its files. A log that ends before them lacks
files. One that has another transaction of that number is another log, put in its place. Who appended to
either would hide rows, so `lacks` says it before. `begin_anew` then leaves a number out, behind which the log
begins again: no older file belongs to it any more, and no offset comes twice.

Where rows are seen before a snapshot names them, the file `END` says which number was appended last; it may
be late, never early. The file `START` says from which number on retention has left files; it may be early in
the log's life (a kill came before the removal), never behind what is there.

`problems` says whether its files are sound: each whole, with its parts, and none missing between them.
"""

from __future__ import annotations

import logging
import zlib
from collections.abc import Iterator, Mapping

from tablestore.core.errors import CommitConflict, Corrupt, TablestoreError
from tablestore.core.quantities import many
from tablestore.io import outcomes
from tablestore.io.fileio import Sync
from tablestore.io.paths import join
from tablestore.log.embedded import files
from tablestore.log.embedded.directory import LogDirectory
from tablestore.log.embedded.files import CUT, LogHeader, LogTransaction, LostEnd
from tablestore.log.embedded.folder import END, START, LogFile
from tablestore.log.offsets import Offsets
from tablestore.log.transaction_id import TransactionId

log = logging.getLogger(__name__)
REMEDY = "table.log.repair() goes on with what the files of the table have"


class LogMismatch(Corrupt):
    """The log of a table is not the one that its snapshots were made from."""


def note_end(directory: LogDirectory, number: int) -> None:
    """Write down that a number was appended. A failure is left to the next."""
    _noted_down(directory, END, number)


def note_start(directory: LogDirectory, number: int) -> bool:
    """Whether it is written down that files are kept from a number on. Who removes older ones does so only
    then, or the log would say that they are lost."""
    return _noted_down(directory, START, number)


def _noted_down(directory: LogDirectory, name: str, number: int) -> bool:
    text = str(number).encode()
    try:
        directory.io.replace(join(directory.path, name), b"%s %d" % (text, zlib.crc32(text)))
    except (TablestoreError, OSError) as e:
        log.info("%s: its %s is not written down: %s", directory.path, name, e)
        return False
    return True


def missing_end(directory: LogDirectory, last: TransactionId | None) -> Corrupt | None:
    """What is wrong where a file is missing that was appended behind the `last` transaction of a snapshot;
    None where nothing says so."""
    noted = directory.noted(END)
    committed = 0 if last is None else last.number
    if noted is not None and noted <= committed:
        return None
    number = committed if noted is None else noted
    if number > directory.end().number:
        directory.reset()  # other processes may have begun it anew
        if number > directory.end().number:
            path = directory.file_path((number, number))
            rows = "rows that were in it" if noted is not None else "maybe rows of later ones"
            return Corrupt(path, f"it is missing, and {rows} are in no snapshot", remedy=REMEDY)
    return None


def missing_start(directory: LogDirectory) -> tuple[int, int] | None:
    """The first and last number of files that are missing though retention has not removed them; None where
    nothing says so."""
    directory.forget()
    chain = directory.chain()
    noted = directory.noted(START)  # read behind the chain: it is never behind what is there
    if noted is None or not chain or chain[0][0] <= noted:
        return None
    return noted, chain[0][0] - 1


def require_same(directory: LogDirectory, last: TransactionId | None) -> None:
    """Raise LogMismatch where a transaction of the log is not the one that a snapshot names, Corrupt where
    that cannot be read. None, one that has expired and one behind the end are no error."""
    if last is None:
        return
    if not _is_same(directory, last):
        directory.reset()  # repaired by somebody else meanwhile
        if not _is_same(directory, last):
            text = f"its transaction {last.number} is not the one that the newest snapshot has"
            raise LogMismatch(directory.path, text, remedy=REMEDY)


def _is_same(directory: LogDirectory, last: TransactionId) -> bool:
    end = directory.end()
    if last.number > end.number:
        directory.reset()
        end = directory.end()
    for numbers in reversed(directory.chain()):
        if numbers[0] <= last.number:
            break
    else:
        return True
    if numbers[1] < last.number or last.number in end.cut:
        return True
    try:
        transactions = directory.file(numbers).header.transactions
    except FileNotFoundError:  # rolled up meanwhile
        directory.forget()
        return _is_same(directory, last)
    return any((t.number, t.uuid) == (last.number, last.uuid) for t in transactions)


def lacks(directory: LogDirectory, at: Offsets, last: TransactionId | None) -> Corrupt | None:
    """What a log lacks of what a snapshot names: its offsets `at`, behind which the rows are in the log
    alone, and the `last` transaction before them. LostEnd where its end was torn. Raises LogMismatch and
    Corrupt."""
    require_same(directory, last)
    end, start = directory.end(), directory.start()
    for bucket, offset in sorted(at.items()):
        ends = end.offsets.get(bucket, 0)
        if ends < offset:
            kind, why = (LostEnd, "is torn") if end.cut else (Corrupt, "is missing")
            text = f"the log ends at offset {ends} of bucket {bucket}, the newest snapshot at {offset}"
            return kind(directory.path, f"{text}: what it had from there on {why}", remedy=REMEDY)
    for bucket, offset in sorted((start or {}).items()):
        if at.get(bucket, 0) < offset:
            text = (
                f"the log starts at offset {offset} of bucket {bucket}, the newest snapshot ends at "
                f"{at.get(bucket, 0)}: files of the log with the rows between are missing"
            )
            return Corrupt(directory.path, text, remedy=files.REMEDY)
    return None


def begin_anew(
    directory: LogDirectory, at: Offsets, last: TransactionId | None, *, buckets: int
) -> TransactionId:
    """Let the log begin behind all that it has and that a snapshot names (`at`, `last`): its first
    transaction then, which has no rows. What the log had before is not in it any more.

    Raises CommitConflict where somebody else did so or appended.
    """
    end, env = directory.end(), directory.env
    number = max(end.number, 0 if last is None else last.number, directory.noted(END) or 0) + 2
    start = {b: max(end.offsets.get(b, 0), at.get(b, 0)) + CUT for b in range(buckets)}
    now = max(env.now_ms(), end.timestamp_ms)
    transaction = LogTransaction(number, env.uuid(), now, {})
    header = LogHeader(number, number, start, (transaction,), (), 0, (number - 1,), directory.table)
    path = directory.file_path((number, number))
    note_start(directory, number)  # a kill behind the new file must not make older ones missed
    if not outcomes.put_new(
        directory.io, path, files.encode(header), unique=True, after=Sync(directory.root)
    ):
        raise CommitConflict(f"{path} is there: the log was repaired by somebody else, or appended to")
    note_end(directory, number)
    directory.reset()
    log.warning("%s begins anew at offsets %s", directory.path, start)
    return transaction.id


def passed_rows(directory: LogDirectory, at: Offsets) -> dict[int, int]:
    """Per bucket how many offsets behind `at` lie in torn or damaged files at the end that were passed over,
    as far as they still say so."""
    counts: dict[int, int] = {}
    for numbers in (*directory.passed, *directory.torn):
        for bucket, gone in (directory.rows_in(numbers, at) or {}).items():
            counts[bucket] = counts.get(bucket, 0) + len(gone)
    return counts


def torn_rows(directory: LogDirectory, at: Offsets) -> list[tuple[str, str]]:
    """(path, what was in it alone) of each torn file at the end of a log whose rows are seen before a
    snapshot has them. `at`: up to where files of the table have its rows."""
    directory.end()
    torn = []
    for numbers in directory.torn:
        path, ranges = directory.file_path(numbers), directory.rows_in(numbers, at)
        if ranges is None:
            torn.append((path, f"a loss of power tore it, and it no longer says which rows it had; {REMEDY}"))
        elif ranges:
            parts = [f"offsets {r.start} to {r.stop - 1} of bucket {b}" for b, r in sorted(ranges.items())]
            count = many(sum(map(len, ranges.values())), "row")
            what = f"a loss of power tore it: {count} that no snapshot has, {', '.join(parts)}, are lost"
            torn.append((path, f"{what}; {REMEDY}"))
    return torn


def problems(directory: LogDirectory, *, rows: bool) -> Iterator[tuple[str, str]]:
    """(path, what is wrong) of every file of a log; with `rows` the rows are compared with their checksums.
    Raises FileNotFoundError where one is gone meanwhile."""
    directory = directory.salvaging()  # looks behind damage at the end
    directory.end()
    chain = directory.chain()
    passed = {last for _, last in directory.passed}
    torn = set(directory.last_end().cut) - passed  # the newest files, which the next one passes over
    damaged: dict[int, tuple[str, str]] = {}
    of_rows: dict[int, list[tuple[str, str]]] = {}
    end: Mapping[int, int] | None = None
    for numbers in chain:
        path = directory.file_path(numbers)
        try:
            file = directory.file(numbers)
            header = file.header
        except Corrupt as e:
            damaged[numbers[1]] = path, _said(e)
            continue
        for number in header.cut:
            damaged.pop(number, None)
            of_rows.pop(number, None)  # a file that is left out counts for nothing
        expected = None if end is None or header.cut or damaged else end
        end = header.end
        if expected is not None and any(header.start.get(b, 0) != o for b, o in expected.items()):
            yield path, f"starts at offsets {dict(header.start)}; the file before it ends at {dict(expected)}"
        of_rows[numbers[1]] = [(path, text) for text in _problems(directory, file, rows=rows)]
    yield from (each for number, texts in of_rows.items() if number not in torn for each in texts)
    yield from (problem for number, problem in sorted(damaged.items()) if number not in torn)
    yield from _missing(directory)


def _missing(directory: LogDirectory) -> Iterator[tuple[str, str]]:
    """Files behind a gap in the numbers, since retention removes the oldest first; and the oldest, where it
    removed none."""
    chain, others = directory.listed()
    older = [number for name in others if (number := files.numbers(name)) is not None]
    before = [last for _, last in older if chain and last < chain[0][0]]
    if before and max(before) + 1 < chain[0][0]:
        text = f"files of the numbers {max(before) + 1} to {chain[0][0] - 1} are missing"
        yield directory.path, f"{text}: the log begins behind them; {files.REMEDY}"
    elif (gone := missing_start(directory)) is not None:
        text = f"files of the numbers {gone[0]} to {gone[1]} are missing, which retention has not removed"
        yield directory.path, f"{text}; {files.REMEDY}"


def _problems(directory: LogDirectory, file: LogFile, *, rows: bool) -> Iterator[str]:
    for chunk in file.header.chunks:
        where = f"rows {chunk.start} to {chunk.end} of bucket {chunk.bucket}"
        try:
            if rows:
                data = directory.rows_of(file, chunk)
                files.require_intact(data, chunk, file.path)
            elif chunk.part is not None:
                directory.io.size(directory.part_path(chunk.part))
        except Corrupt as e:
            yield _said(e)
        except FileNotFoundError:
            if chunk.part is None:
                raise
            yield f"{where} are in part {chunk.part}, which is not there"


def _said(problem: Corrupt) -> str:
    return problem.problem + (f"; {problem.remedy}" if problem.remedy else "")
