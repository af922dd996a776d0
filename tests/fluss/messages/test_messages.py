"""The generated messages are those of fluss.proto."""

from __future__ import annotations

import importlib.metadata
from pathlib import Path

import pytest
from grpc_tools import protoc

from tablestore.fluss.apis import APIS, Api

ROOT = Path(__file__).parents[3]
SOURCE = "tablestore/fluss/messages/fluss.proto"


def test_the_generated_code_is_made_of_the_source(tmp_path: Path) -> None:
    command = ["", f"-I{ROOT}", f"--python_out={tmp_path}", f"--pyi_out={tmp_path}", str(ROOT / SOURCE)]
    assert protoc.main(command) == 0
    for name in ("fluss_pb2.py", "fluss_pb2.pyi"):
        text = (tmp_path / SOURCE).with_name(name).read_text()
        there = (ROOT / SOURCE).with_name(name).read_text()
        assert text == there, (
            f"make it anew as {SOURCE} says (grpcio-tools {importlib.metadata.version('grpcio-tools')})"
        )


@pytest.mark.parametrize("api", APIS.values(), ids=str)
def test_every_call_has_its_messages(api: Api) -> None:
    assert api.request.DESCRIPTOR.name == f"{api.name}Request"
    assert api.response.DESCRIPTOR.name == f"{api.name}Response"
