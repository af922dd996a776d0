"""Which snapshots an expiry lets go and who keeps the others, by each rule once: `cases/retention.txt`.

`snapshots 1..10`: one an hour, snapshot n at n o'clock (`without 4,5`: these are not there). `now 12`: the
hour of the expiry. `keep min=2 max=5 age=3h limit=9`: the policy. `consumer reader 4`, `position 6`: what is
needed from this snapshot on.
"""

from __future__ import annotations

from pathlib import Path

from tablestore.core.options.table_options import duration_ms
from tablestore.meta.expiry_rules import CONSUMER, POSITION, Bound, ExpirePolicy, extent
from tests import text_cases

CASES = Path(__file__).parent / "cases" / "retention.txt"
HOUR_MS = 3_600_000


def outcome(lines: list[str]) -> str:
    protected, missing, first, last, now, keep = [], set[int](), 1, 1, 0, dict[str, str]()
    for verb, *words in map(str.split, lines):
        if verb == "snapshots":
            first, last = map(int, words[0].split(".."))
            missing = set(map(int, words[2].split(","))) if words[1:] else missing
        elif verb == "now":
            now = int(words[0])
        elif verb == "keep":
            keep = text_cases.settings(words)
        elif verb == "consumer":
            protected.append(Bound(CONSUMER, int(words[1]), f"consumer {words[0]}", name=words[0]))
        else:
            assert verb == "position", verb
            protected.append(Bound(POSITION, int(words[0]), f"stream positions in snapshot {words[0]}"))

    def time_of(number: int) -> int | None:
        assert first <= number <= last, "each is a read of a file"
        return None if number in missing else number * HOUR_MS

    policy = ExpirePolicy(int(keep["min"]), int(keep["max"]), duration_ms(keep["age"]), int(keep["limit"]))
    actual = extent(
        policy,
        earliest=first,
        latest=last,
        time_of=time_of,
        now_ms=now * HOUR_MS,
        protected=protected,
    )
    going = f"{first}..{actual.end - 1} go" if actual.end > first else "none goes"
    rules = []
    for b in actual.bounds:
        until = "" if b.until_ms is None else f", until {b.until_ms / HOUR_MS:g} o'clock"
        rules.append(f"  {b.rule}: from {b.first} on, {b.text}{until}")
    kept = [f"  kept for {', '.join(actual.protected_by)}"] if actual.protected_by else []
    return "\n".join([f"{going}, {actual.end}..{last} stay", *rules, *kept])


def test_every_rule_of_retention(rewrite: bool) -> None:
    text_cases.check(CASES, outcome, rewrite=rewrite)
