"""The embedded log in an object store."""

from __future__ import annotations

import threading

from tablestore.core.env import Env
from tablestore.core.options.log_store import LogSystem
from tablestore.io.object_store import ObjectStoreFileIO
from tablestore.io.s3_options import S3Options
from tablestore.log.embedded.log import EmbeddedLog
from tablestore.log.log import CommitMark
from tablestore.log.settings import LogSettings
from tests.faults import SimEnv
from tests.log.embedded_logs import SCHEMA, append, ids
from tests.servers.s3 import KEY, SECRET, S3Server


def open_log(server: S3Server, directory: str, env: Env, memory_bytes: int = 1 << 20) -> EmbeddedLog:
    options = S3Options.parse({"s3.endpoint": server.endpoint, "s3.access-key": KEY, "s3.secret-key": SECRET})
    settings = LogSettings(LogSystem.EMBEDDED, directory, None, SCHEMA, 2, eventual=False, upsert=False)
    io = ObjectStoreFileIO(options)
    return EmbeddedLog(io, settings, schemas=lambda _: SCHEMA, env=env, memory_bytes=memory_bytes)


def test_two_writers_append_at_once_and_roll_up(s3: S3Server) -> None:
    directory = f"{s3.bucket()}/db.db/t/tablestore/log"

    def run(k: int) -> None:
        log = open_log(s3, directory, SimEnv(k), memory_bytes=0 if k else 1 << 20)
        for i in range(35):
            append(log, {0: [2 * i + k]}, CommitMark(str(k), i))

    threads = [threading.Thread(target=run, args=(k,)) for k in (0, 1)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = open_log(s3, directory, SimEnv(7))
    actual = ids(log)[0]
    assert sorted(actual) == list(range(70))
    assert [n for n in actual if n % 2] == list(range(1, 70, 2))
    assert log.wait({}, 1)
    log.drop()
    assert open_log(s3, directory, SimEnv(8)).bounds().end == {0: 0, 1: 0}
