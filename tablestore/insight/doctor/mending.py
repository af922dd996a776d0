"""Planning a mend: which findings are due, what a call would do, and the value that `Table.mend` gives.

Plans only: `verbs.mend` carries calls out. What gives something up is due only when the caller has decided,
what no call mends never.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from textwrap import indent

from tablestore.core import quantities
from tablestore.core.errors import InvalidRequest
from tablestore.insight.doctor.finding import Diagnosis, Finding, MendingCall
from tablestore.insight.doctor.repair import Repair
from tablestore.meta.store import Store


@dataclass(frozen=True, slots=True)
class Mended:
    """What was done (`dry_run`: would be) about findings.

    `done` has each finding with what its calls returned, `remaining` those that ask for a decision or that no
    call mends, `after` the diagnosis afterwards, `repair` what was broken. A call that repairs the table ends
    there: the doctor looks at it in the next call.
    """

    done: tuple[tuple[Finding, tuple[str, ...]], ...]
    remaining: tuple[Finding, ...] = ()
    after: Diagnosis | None = None
    dry_run: bool = False
    repair: Repair | None = None

    @property
    def text(self) -> str:
        """Finding by finding."""
        if self.repair is not None and self.repair.changes:
            return self.repair.text
        lines = [] if self.done else ["nothing to mend by itself"]
        lines = [self.repair.text, *lines] if self.repair else lines
        for finding, texts in self.done:
            lines.append(f"{finding.kind}{f' · {finding.where}' if finding.where else ''}: {finding.remedy}")
            lines += [f"    decide: {finding.asks}"] if finding.asks and self.dry_run else []
            lines += [indent(t, "    ") for t in texts]
        for finding in self.remaining:
            why = f"decide: {finding.asks}" if finding.mends else f"look: {finding.remedy}"
            lines.append(f"left alone: {finding.kind} · {finding.where}: {why}")
        if self.dry_run:
            lines.append("a preview: nothing was changed; call again with dry_run=False")
        elif self.after is not None:
            lines.append(f"the doctor now: {self.after.summary}")
        return "\n".join(lines)

    def __repr__(self) -> str:
        return self.text


def require_mendable(finding: Finding, *, decided: bool) -> None:
    """Raise InvalidRequest for a finding that no call mends, or that asks for a decision not made."""
    if not finding.mends:
        raise InvalidRequest(f"no call mends {finding.kind!r} by itself; look first: {finding.remedy}")
    if finding.asks and not decided:
        raise InvalidRequest(
            f"{finding.kind!r}: {finding.asks}; if that is right, call again with decided=True"
        )


def due(
    diagnosis: Diagnosis, *, decided: bool, tried: Collection[tuple[str, str]] = ()
) -> tuple[Finding, ...]:
    """The findings of a diagnosis that calls mend, without those already tried (by kind and place)."""
    return tuple(
        f for f in diagnosis if f.mends and (decided or not f.asks) and (f.kind, f.where) not in tried
    )


def preview_of(store: Store, call: MendingCall) -> str:
    """What a call without a dry run of its own would do."""
    snapshot, manifests = store.snapshots.latest(), store.manifests
    if call.verb == "rescale":
        live = manifests.live_entries(snapshot)
        size, rows = (int(live.numbers(n).sum()) for n in ("file_size", "row_count"))
        files = f"{rows:,} rows in {quantities.many(len(live), 'file')}, {quantities.size(size)}"
        return f"{files}, are written anew into {quantities.many(call.arguments[0], 'bucket')} a partition"
    if call.verb == "compact_manifests":
        manifest_files = manifests.manifests(snapshot) if snapshot else []
        size = sum(m.file_size for m in manifest_files)
        merged = f"{quantities.many(len(manifest_files), 'manifest')} of {quantities.size(size)} are merged"
        return f"{merged}; no data file is read"
    if call.verb == "tags.delete":
        return f"tag {call.arguments[0]} goes, with the files that nothing else needs"
    if call.verb == "log.repair":
        return "the log goes on without what is damaged; streams from before it go on with files"
    return f"consumer {call.arguments[0]} is forgotten; the next expiry may take what it kept"


def option_changes(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """`option k: 4 → 8`, a line an option."""
    keys = [k for k in sorted({*before, *after}) if before.get(k) != after.get(k)]
    lines = [f"option {k}: {before.get(k, 'not set')} → {after.get(k, 'not set')}" for k in keys]
    return "\n".join(lines) or "the options say so already"
