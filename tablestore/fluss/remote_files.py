"""Files that a cluster has put elsewhere, segments of logs and snapshots of keys: where they are.

A folder that this machine sees, too, or S3, with the endpoint and the keys of the environment (`AWS_…`).
"""

from __future__ import annotations

from tablestore.core.errors import Unsupported
from tablestore.io.paths import location


def remote_location(path: str, where: str) -> str:
    """The location of a remote file or folder; raises Unsupported, naming `where`, for another store."""
    try:
        return location(path)
    except Unsupported:
        scheme = path.partition("://")[0]
        raise Unsupported(
            f"remote files of Fluss at {scheme}://",
            f"{where}: remote.data.dir must be a folder that this machine sees, or s3://",
        ) from None
