"""One compaction in four captions: the rule, the runs it takes, the merge, before and after.

Invariants: rule, sum, counts and bytes are those of the engine's own record; which files it took is the
difference of the two snapshots; the rows under the frontier are merged by the table's merge function
(`inspect.merging`). A frontier stands behind a key that is merged. Pure. Called by figure and widget; made by
`load`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from widgets.kit import format as fmt
from widgets.levels.model import LsmModel
from widgets.merge.model import MergeModel

RULE, TAKES, MERGES, RESULT = range(4)
CAPTIONS = ("Rule", "Takes", "Merges", "Before → after")
STOPS = 5
"""Rows that are merged before the reader's eyes, one a stop of the frontier."""
_NAMED = 6


@dataclass(frozen=True, slots=True)
class TakenRun:
    """A sorted run that the compaction takes, wholly or in part."""

    level: int
    name: str
    files: int
    bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class PlayModel:
    """A compaction that a bucket has had.

    `record` is its row of `inspect.compactions()`, `before` and `after` are the levels around it, `rows` at
    most `STOPS` keys merged, `stops` the share of the key range behind each. `no_rows`: why there are none.
    """

    title: str = ""
    record: dict[str, Any] = field(default_factory=dict)
    before: LsmModel | None = None
    after: LsmModel | None = None
    taken: tuple[TakenRun, ...] = ()
    rows: MergeModel | None = None
    stops: tuple[float, ...] = ()
    no_rows: str = ""

    @property
    def scenes(self) -> tuple[tuple[int, int], ...]:
        """(caption, place of the frontier) of each scene, in order."""
        if not self.record:
            return ()
        merging = [(MERGES, at) for at in range(len(self.stops))]
        return ((RULE, 0), (TAKES, 0), *merging, (RESULT, 0))

    @property
    def snapshot(self) -> int | None:
        """The compaction's snapshot."""
        return self.record.get("snapshot_id")

    @property
    def bucket_id(self) -> str:
        """`day=mon/0`."""
        return f"{self.record.get('partition', '')}/{self.record.get('bucket', 0)}" if self.record else ""

    @property
    def explanation(self) -> tuple[str, ...]:
        """The engine's words: what it takes and why, then every rule that it tried."""
        return tuple(str(self.record.get("explanation", "")).splitlines())

    @property
    def output(self) -> str:
        """`L5`."""
        return f"L{self.record.get('output_level', 0)}"

    def says(self, scene: int) -> str:
        """The caption of a scene in full sentences."""
        caption, at = self.scenes[scene]
        return _SAYS[caption](self, at)

    def lines(self) -> list[str]:
        """The four captions, numbered."""
        firsts = [next(i for i, (c, _) in enumerate(self.scenes) if c == caption) for caption in _shown(self)]
        return [
            f"{n}. {CAPTIONS[self.scenes[at][0]]}: {self.says(at)}" for n, at in enumerate(firsts, start=1)
        ]


def _shown(model: PlayModel) -> list[int]:
    return sorted({caption for caption, _ in model.scenes})


def _rule(model: PlayModel, _: int) -> str:
    record = model.record
    if record.get("asked"):
        return "A full compaction was asked for; no rule had to fire."
    if not record.get("rule"):
        return f"Another engine compacted; by our rules: {model.explanation[0] if model.explanation else '–'}"
    return f"{str(record['rule']).capitalize()} fires: {record.get('reason') or record.get('inputs') or ''}"


def _takes(model: PlayModel, _: int) -> str:
    names = [run.name for run in model.taken]
    more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
    size = fmt.bytes_text(sum(run.bytes for run in model.taken))
    what = fmt.plural(len(names), "run")
    return f"It takes {what}, {size}: {', '.join(names[:_NAMED])}{more}; the output goes to {model.output}."


def _merges(model: PlayModel, at: int) -> str:
    if model.rows is None or at >= len(model.rows.steps):
        part = fmt.percent(round(100 * model.stops[at]), 100)
        why = f" ({model.no_rows})" if model.no_rows else ""
        return f"The merge has passed {part} of the keys{why}."
    step = model.rows.steps[at]
    return f"Key {step.key}, found in {fmt.plural(len(step.inputs), 'run')}: {step.why}"


def _result(model: PlayModel, _: int) -> str:
    record, before, after = model.record, model.before, model.after
    if not record["files_read"]:
        moved = fmt.plural(int(record["files_moved"]), "file")
        return f"{moved} moved to {model.output}; nothing was read or written."
    runs = "" if before is None or after is None else f"; runs {before.runs} → {after.runs}"
    rows = f"{int(record['rows_in']):,} → {int(record['rows_out']):,} rows"
    size = f"{fmt.bytes_text(int(record['bytes_read']))} → {fmt.bytes_text(int(record['bytes_written']))}"
    return f"{rows}, {size}{runs}."


_SAYS = {RULE: _rule, TAKES: _takes, MERGES: _merges, RESULT: _result}


def facts(model: PlayModel) -> list[tuple[str, str, str]]:
    """(what, before, after) of the bucket, then what the compaction read and wrote."""
    record, before, after = model.record, model.before, model.after
    pairs: list[tuple[str, str, str]] = []
    if before is not None and after is not None:
        pairs += [
            ("sorted runs", str(before.runs), str(after.runs)),
            ("files", f"{before.count:,}", f"{after.count:,}"),
            ("bytes", fmt.bytes_text(before.bytes), fmt.bytes_text(after.bytes)),
            ("rows stored", f"{before.rows:,}", f"{after.rows:,}"),
            ("most runs to read at one key", str(_peak(before)), str(_peak(after))),
        ]
    took = "" if record.get("millis") is None else f" in {fmt.duration(record['millis'] / 1000)}"
    cost = fmt.bytes_text(int(record["bytes_written"])) + took
    return [*pairs, ("read, written", fmt.bytes_text(int(record["bytes_read"])), cost)]


def _peak(model: LsmModel) -> int:
    return int(max((count for _, count in model.overlap), default=0))


def text_form(model: PlayModel) -> str:
    """The captions in a terminal."""
    if not model.record:
        return f"{model.title}  no compaction yet".strip()
    place = model.bucket_id.removeprefix("/")
    head = f"{model.title}  {fmt.snapshot_id(model.snapshot or 0)} COMPACT of bucket {place}".strip()
    return "\n".join([head, *model.lines()])


def taken_runs(before: LsmModel, names: frozenset[str]) -> tuple[TakenRun, ...]:
    """The runs of these files, newest first."""
    runs: list[TakenRun] = []
    for lane in before.lanes:
        files: Sequence[Any] = [file for file in lane.files if file.name in names]
        if files:
            name = f"L0 {files[0].origin}" if lane.level == 0 and lane.merged < 2 else f"L{lane.level}"
            sizes = sum(file.bytes for file in files), sum(file.rows for file in files)
            runs.append(TakenRun(lane.level, name, len(files), *sizes))
    return tuple(runs)
