"""Flink with Fluss's connector and Java Paimon: releases that fit each other, fetched once for a machine.

Fluss's own tiering job is in its connector, the lake that it writes to (fluss-lake-paimon) is not on Maven
Central: the job is an INSERT of Flink SQL from the one connector into the other.
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.peers import flink_env, java_env

HERE = Path(__file__).parent / "flink"
FLINK = "1.20.1"
CLASSES = Path(sys.prefix) / "peers" / "flink-tier" / "classes"
CONNECTORS = ("com.alibaba.fluss:fluss-flink-1.20:0.7.0", "org.apache.paimon:paimon-flink-1.20:1.3.1")


def is_made() -> bool:
    """Whether all is fetched and compiled."""
    fetched = all(java_env.local_jar(jar).exists() for jar in CONNECTORS)
    return fetched and flink_env.folder_of(FLINK).exists() and java_env.are_compiled(HERE, CLASSES)


def class_path() -> str:
    """Class path of the contender, everything fetched and compiled; raises java_env.Missing."""
    java_env.need("java", "javac", "mvn")
    connectors = [java_env.fat_jar(jar) for jar in CONNECTORS]
    path = ":".join(map(str, [*flink_env.flink_jars(FLINK), *connectors, *java_env.hadoop_jars()]))
    return f"{path}:{HERE}:{java_env.compiled(HERE, path=path, classes=CLASSES)}"
