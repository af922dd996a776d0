"""Partitions that expire here are those that expire in Java Paimon."""

from __future__ import annotations

import random
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import tablestore as ts
from tests.faults import SimEnv
from tests.peers.cells import cells, in_order
from tests.peers.java_paimon import JavaPaimon

pytestmark = pytest.mark.peer
HOUR_MS = 3_600_000
WAYS: dict[str, tuple[dict[str, str], dict[str, Any], list[str]]] = {
    "plain": ({"p": "STRING"}, {}, ["%Y-%m-%d", "%Y-%-m-%-d %H:%M:%S", "%Y%m%d", "x"]),
    "formatter": ({"p": "STRING"}, {"partition.timestamp-formatter": "yyyyMMddHH"}, ["%Y%m%d%H", "%Y%m%d"]),
    "number": ({"p": "INT"}, {"partition.timestamp-formatter": "yyyyMMdd"}, ["%Y%m%d"]),
    "date": ({"p": "DATE"}, {}, ["%Y-%m-%d"]),
    "pattern": (
        {"p": "STRING", "h": "INT"},
        {"partition.timestamp-pattern": "$p $h:00", "partition.timestamp-formatter": "yyyy-MM-dd H:mm"},
        ["%Y-%m-%d"],
    ),
    "quoted": (
        {"p": "STRING"},
        {"partition.timestamp-formatter": "'at' yyyy-MM-dd'T'HH:mm"},
        ["at %Y-%m-%dT%H:%M"],
    ),
    "updated": ({"p": "STRING"}, {"partition.expiration-strategy": "update-time"}, ["%Y-%m-%d", "x"]),
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.sample(3)
def test_the_same_partitions_expire(java: JavaPaimon, tmp_path: Path, way: str) -> None:
    columns, options, forms = WAYS[way]
    rng, path, other = random.Random(way), str(tmp_path / "d.db" / "t"), str(tmp_path / "d.db" / "java")
    keys = list(columns)
    age = "1 h" if way == "updated" else "3 d"
    options = {"bucket": 1, "partition.expiration-time": age, "partition.expiration-max-num": 5, **options}
    java.create(path, {**columns, "k": "INT"}, partition_keys=keys, options=options | {"bucket": -1})
    now = datetime.now(UTC)
    moments = [now - timedelta(hours=rng.randrange(24 * 7)) for _ in range(12)]
    rows = [
        [value(m, columns["p"], rng.choice(forms)), *([m.hour] if "h" in columns else []), i]
        for i, m in enumerate(moments)
    ]
    if way != "updated":
        rows.append([None, *([1] if "h" in columns else []), 99])
    if way == "updated":
        earlier = ts.open(path, env=SimEnv(now_ms=int(now.timestamp() * 1000) - 2 * HOUR_MS))
        earlier.write([dict(zip((*columns, "k"), row, strict=True)) for row in rows[:6]])
    else:
        java.write(path, rows[:6])
    t = ts.open(path)
    java.write(path, rows[6:], identifier=1)
    shutil.copytree(path, other)
    theirs = {"/".join(f"{k}={v}" for k, v in p.items()) for p in java.expire_partitions(other)}
    done = t.expire_partitions()
    assert len(done.partitions) == len(theirs), (done, theirs)
    assert of(t) == of(ts.open(other)) == java.rows(path)
    assert (len(done.partitions) > 0) == (way != "date")
    assert t.check() == []


def value(moment: datetime, kind: str, form: str) -> Any:
    text = moment.strftime(form)
    return int(text) if kind == "INT" else text


def of(t: ts.Table) -> list[list[Any]]:
    return in_order(cells(t.scan().to_arrow()))
