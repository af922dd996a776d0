"""S3 servers: moto (pip only, always there) and versitygw (a real one, stricter, where it can be had).

versitygw is built once by Go, if Go is there, into the cache of tools, before the tests begin: it takes
minutes. TABLESTORE_VERSITYGW names a binary of one's own. Without either its tests are skipped.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import os
import subprocess
import sys
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from notebooks.demo.ports import free_port, listens
from tests.peers import require
from tests.servers.process import running
from tests.suite import counterparts

CACHE = Path.home() / ".cache" / "tablestore-workbench" / "tools"
VERSITYGW = "github.com/versity/versitygw/cmd/versitygw@v1.8.0"
KEY, SECRET = "workbench", "a-secret-of-tests"


@dataclass(frozen=True)
class S3Server:
    """A running server; `bucket()` makes a new one and gives its URI."""

    name: str
    endpoint: str
    bucket: Callable[[], str]

    @property
    def options(self) -> dict[str, str]:
        """How to reach it, as `connect` takes it."""
        return {"s3.endpoint": self.endpoint, "s3.access-key": KEY, "s3.secret-key": SECRET}


@contextlib.contextmanager
def moto(folder: Path) -> Iterator[S3Server]:
    """moto's server, in memory."""
    require(importlib.util.find_spec("moto"), "needs moto")
    import boto3

    port = free_port()
    endpoint = f"http://127.0.0.1:{port}"
    command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
    with running(command, ready=lambda: listens(port), log=folder / "moto.log"):
        client = boto3.client(
            "s3",
            endpoint_url=endpoint,
            aws_access_key_id=KEY,
            aws_secret_access_key=SECRET,
            region_name="us-east-1",
        )

        def bucket() -> str:
            name = f"lake-{uuid.uuid4().hex[:12]}"
            client.create_bucket(Bucket=name)
            return f"s3://{name}"

        yield S3Server("moto", endpoint, bucket)


@contextlib.contextmanager
def versitygw(folder: Path) -> Iterator[S3Server]:
    """versitygw over a directory, whose folders are its buckets."""
    counterparts.need("versitygw")
    binary, port, data = binary_path(), free_port(), folder / "buckets"
    data.mkdir()
    where = ["--port", f"127.0.0.1:{port}", "--access", KEY, "--secret", SECRET, "posix", str(data)]
    with running([str(binary), *where], ready=lambda: listens(port), log=folder / "versitygw.log"):

        def bucket() -> str:
            name = f"lake-{uuid.uuid4().hex[:12]}"
            (data / name).mkdir()
            return f"s3://{name}"

        yield S3Server("versitygw", f"http://127.0.0.1:{port}", bucket)


def binary_path() -> Path:
    """Where versitygw is or would be."""
    named = os.environ.get("TABLESTORE_VERSITYGW")
    return Path(named) if named else CACHE / "versitygw"


def build() -> str:
    """Build versitygw unless another process has done so; what Go says if it cannot.

    Without optimizations, which take a third of the time of the compiler.
    """
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "versitygw.turn").open("w") as turn:
        fcntl.flock(turn, fcntl.LOCK_EX)
        if (CACHE / "versitygw").exists():
            return ""
        environment = {**os.environ, "GOBIN": str(CACHE), "GOFLAGS": "-modcacherw"}
        plainly = ["-gcflags=all=-N -l", "-ldflags=-s -w"]
        done = subprocess.run(
            ["nice", "-n", "5", "go", "install", *plainly, VERSITYGW],
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
        )
        return f"{done.returncode}: {done.stderr[-200:]}" if done.returncode else ""
