"""Arguments of public verbs are checked by their types, before the call; what a verb raises is its own."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pytest

from tablestore.core.arguments import checked, checked_but
from tablestore.core.env import Env
from tablestore.core.errors import InvalidRequest
from tablestore.io.fileio import FileIO, LocalFileIO

if TYPE_CHECKING:
    from decimal import Decimal

Names = str | tuple[str, ...]


@checked
def verb(
    count: int = 0,
    *more: float,
    full: bool | None = None,
    names: Names = "",
    rows: Sequence[Sequence[int]] = (),
    options: Mapping[str, str | int] | None = None,
    place: str | PathLike[str] = "",
    each: Callable[[int], None] | None = None,
    io: FileIO | None = None,
    env: Env | None = None,
    price: Decimal | None = None,
    frame: pa.Table | None = None,
    **others: str,
) -> str:
    return "done"


class Forwards:
    """What forwards all that it is asked for may be a store."""

    def __getattr__(self, name: str) -> Any:
        raise AttributeError(name)


def walked_once() -> Iterator[list[int]]:
    raise AssertionError("a check walks nothing that can be walked only once")
    yield []


@pytest.mark.parametrize(
    ("args", "named"),
    [
        ((1, 2, 2.5), {}),
        ((np.int32(1), np.float32(2)), {"full": np.bool_(True)}),
        ((pa.scalar(1),), {"full": None, "names": pa.scalar("a")}),
        ((), {"names": ["a", "b"], "rows": [[1], (2, 3), np.array([4])]}),
        ((), {"rows": walked_once()}),
        ((), {"options": {"a": 1, "b": "2"}, "place": b"".decode(), "each": print}),
        ((), {"io": LocalFileIO(), "env": Env()}),
        ((), {"io": Forwards()}),
        ((), {"price": 5, "frame": 5}),  # types that are not ours are the verb's to judge
        ((), {"another": "text"}),
    ],
)
def test_what_fits_goes_to_the_verb(args: tuple[Any, ...], named: dict[str, Any]) -> None:
    assert verb(*args, **named) == "done"


@pytest.mark.parametrize(
    ("args", "named", "text"),
    [
        (("1",), {}, "count '1' must be a whole number"),
        ((True,), {}, "count True must be a whole number"),
        ((1, 2.5, "3"), {}, "more '3' must be a number"),
        ((), {"full": 1}, "full 1 must be True or False"),
        ((), {"names": 5}, "names 5 must be text or a list"),
        ((), {"names": ["a", 5]}, "names ['a', 5] must be text or a list"),
        ((), {"rows": [[1], ["2"]]}, "rows [[1], ['2']] must be a list"),
        ((), {"rows": "text"}, "rows 'text' must be a list"),
        ((), {"rows": pa.table({"a": [1]})}, "rows of type Table must be a list"),
        ((), {"options": {"a": None}}, "options {'a': None} must be a mapping"),
        ((), {"place": 5}, "place 5 must be text or a path"),
        ((), {"each": "print"}, "each 'print' must be a function"),
        ((), {"io": object}, "must be a FileIO"),
        ((), {"env": "SYSTEM"}, "env 'SYSTEM' must be an Env"),
        ((), {"another": 5}, "another 5 must be text"),
        ((), {"names": "a\ud800"}, "holds half of a character"),
        ((), {"names": ["a", "\ud800"]}, "names '\\ud800' holds half of a character"),
        ((), {"frame": {"\ud800": 1}}, "frame '\\ud800' holds half of a character"),
    ],
)
def test_what_does_not_fit_is_named(args: tuple[Any, ...], named: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(text)):
        verb(*args, **named)


def test_names_that_a_verb_does_not_have_are_pythons_to_refuse() -> None:
    @checked
    def narrow(count: int) -> int:
        return count

    for call in (lambda: narrow(1, 2), lambda: narrow(number=1), narrow):  # type: ignore[call-arg, misc]  # wrong
        with pytest.raises(TypeError, match="argument"):
            call()


@pytest.mark.parametrize("error", [TypeError("a"), ValueError("b"), OverflowError("c"), KeyError("d")])
@pytest.mark.parametrize("count", [1, 1 << 70])
def test_what_a_verb_raises_is_not_blamed_on_an_argument(error: Exception, count: int) -> None:
    class Verbs:
        def __init__(self) -> None:
            pass

        def raises(self, count: int, rows: Sequence[Any] = ()) -> None:
            raise error

    with pytest.raises(type(error)) as raised:
        checked(Verbs)().raises(count, rows=[object()])
    assert raised.value is error


def test_a_wrong_argument_is_refused_before_anything_is_done() -> None:
    done: list[str] = []

    class Verbs:
        @classmethod
        def of(cls, name: str) -> None:
            done.append(name)

        def rename(self, name: str, to: str) -> None:
            done.append(name)

    verbs = checked(Verbs)()
    for call in (lambda: verbs.rename("a", 5), lambda: Verbs.of(5)):  # type: ignore[arg-type]  # what is refused
        with pytest.raises(InvalidRequest, match="5 must be text"):
            call()
    assert done == []


def test_a_verb_judges_plain_values_of_the_parameters_that_it_names() -> None:
    class Loud(Protocol):
        def shout(self) -> str: ...

    @checked_but("key")
    def get(key: Mapping[str, int], by: Loud | None = None) -> Any:
        return key

    for key in (1, "a", [1], {"a": "b"}, None):
        assert get(key) == key  # type: ignore[arg-type]  # what the verb judges
    with pytest.raises(InvalidRequest, match="key of type Table must be a mapping"):
        get(pa.table({"a": [1]}))  # type: ignore[arg-type]  # what is refused
