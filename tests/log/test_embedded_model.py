"""The embedded log against lists: random appends of several writers, roll-ups, retention and readers."""

from __future__ import annotations

import random
from pathlib import Path

import numpy as np
import pytest

from tablestore.log.embedded import directory, roll_up
from tablestore.log.log import CommitMark, LogExpired
from tests.faults import SimEnv
from tests.log.embedded_logs import content, inserts, open_log, rows

BUCKETS = 3
STEPS = 150


def move(env: SimEnv, rng: random.Random) -> None:
    """Let time pass; now and then the clock jumps, back too."""
    jump = rng.choice([1, 100, 20_000, 90_000]) if rng.random() < 0.5 else 0
    env.move(jump if rng.random() < 0.9 else -jump)


def test_readers_see_what_lists_hold(
    tmp_path: Path, seeds: tuple[int, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    span = 4
    for module in (directory, roll_up):
        monkeypatch.setattr(module, "SPAN", span)
        monkeypatch.setattr(module, "TIERS", (span, span**2, span**3))
    monkeypatch.setattr("tablestore.log.embedded.log.SPAN", span)
    for seed in seeds:
        follow(tmp_path / str(seed), seed)


def follow(path: Path, seed: int) -> None:
    """One run of a model beside the log."""
    rng, env = random.Random(seed), SimEnv(seed)
    logs = [
        open_log(
            path,
            env=env,
            buckets=BUCKETS,
            memory_bytes=rng.choice([0, 300, 1 << 20]),
            retention_ms=rng.choice([None, 100_000]) if seed % 2 else None,
        )
        for _ in range(3)
    ]
    truth: dict[int, list[int]] = {b: [] for b in range(BUCKETS)}
    transactions = []
    start = dict.fromkeys(range(BUCKETS), 0)
    for step in range(STEPS):
        move(env, rng)
        log = rng.choice(logs)
        action = rng.random()
        if action < 0.6:
            ids_of = {b: [step * 100 + i for i in range(rng.randint(0, 9))] for b in range(BUCKETS)}
            appender, task, staged = log.appender(), rng.choice(logs).appender(), []
            later: dict[int, list[int]] = {}
            for bucket, some in ids_of.items():
                at_task = rng.random() < 0.2
                (task if at_task else appender).write(bucket, inserts(len(some)), rows(*some))
                (later if at_task else truth).setdefault(bucket, []).extend(some)
            if later and (message := task.stage()) is not None:
                staged.append(message)
            for bucket, some in later.items():
                truth[bucket] += some
            mark = CommitMark("u", step) if staged or rng.random() < 0.5 else None
            if rng.random() < 0.1 and not staged:
                appender.abort()
                for bucket, some in ids_of.items():
                    if bucket not in later:
                        del truth[bucket][len(truth[bucket]) - len(some) :]
                continue
            done = appender.flush() if mark is None else appender.commit(mark, staged)
            if done is not None:
                assert done.mark == mark
                transactions.append(done)
        elif action < 0.7:
            keep = {b: rng.randint(0, len(rows_)) for b, rows_ in truth.items()}
            log.expire(keep)
            now = log.bounds().start
            assert all(start[b] <= now[b] <= max(keep[b], start[b]) for b in start)
            start = now
        else:
            reader = log if rng.random() < 0.7 else open_log(path, env=env, buckets=BUCKETS)
            bounds = reader.bounds()
            assert bounds.end == {b: len(r) for b, r in truth.items()}
            assert bounds.start == start
            low = {b: rng.randint(0, len(r)) for b, r in truth.items() if rng.random() < 0.9}
            high = {b: rng.randint(0, len(r)) for b, r in truth.items() if rng.random() < 0.9}
            expired = any(low.get(b, 0) < min(start[b], stop) for b, stop in high.items())
            if expired:
                with pytest.raises(LogExpired):
                    content(reader, low, high)
                continue
            expected = {
                b: [(i, truth[b][i]) for i in range(low.get(b, 0), stop)]
                for b, stop in high.items()
                if low.get(b, 0) < stop
            }
            assert content(reader, low, high) == expected
            seen = list(reader.transactions(low))
            behind = [t for t in transactions if any(e > low.get(b, 0) for b, e in t.end.items())]
            assert seen == behind[len(behind) - len(seen) :]
            moment = env.now_ms() - rng.randint(0, 100_000)
            newer = [t for t in transactions if t.timestamp_ms >= moment]
            at = {b: min([t.start[b] for t in newer if b in t.start], default=len(truth[b])) for b in truth}
            assert all(reader.at(moment)[b] in (at[b], max(start[b], at[b])) for b in truth)
    moments = [t.timestamp_ms for t in transactions]
    assert moments == sorted(moments)
    assert np.all(np.diff(moments) >= 0)
