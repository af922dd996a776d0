"""A share of the attacks on tables with a topic: the same moments as those of an embedded log
(`campaign/log_life.py`)."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import tablestore as ts
from tests.campaign.log_life import live
from tests.campaign.log_stores import KINDS, Kafka
from tests.servers.kafka import Broker


def attacked(kafka: Broker, kind: str, folder: Path, seeds: tuple[int, ...], moments: int) -> Counter[str]:
    counts = Counter[str]()
    for seed in seeds:
        counts += live(Kafka(kafka), kind, folder / str(seed), seed, moments=moments)
        ts.connect(folder / str(seed)).drop_table("d.t")
    return counts


@pytest.mark.large
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1, all=2)
def test_what_was_acknowledged_is_there_or_named(
    kafka: Broker, kind: str, tmp_path: Path, seeds: tuple[int, ...]
) -> None:
    assert attacked(kafka, kind, tmp_path, seeds, moments=6).total() >= 6


@pytest.mark.large
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.sample(1, all=1)
def test_of_long_lives_too(kafka: Broker, kind: str, tmp_path: Path, seeds: tuple[int, ...]) -> None:
    counts = attacked(kafka, kind, tmp_path, seeds, moments=15)
    print(counts)
    assert counts["write"] > 0
