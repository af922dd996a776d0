"""Checks of arguments of the public API: a value whose type the parameter does not take is one
InvalidRequest, raised before the call does anything.

`checked` decorates a function, or a class and thereby all its public methods. What a parameter takes is its
type: Python's plain types, collections of them, our own classes. Values of all other types are the verb's to
judge, and so are plain ones of parameters that `checked_but` names: there the verb's own message says more.
What a verb raises passes as it is. A correct call costs a few microseconds.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import numbers
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple, TypeVar, cast

from tablestore.core.errors import InvalidRequest

T = TypeVar("T")


class Kind(NamedTuple):
    """A kind of values: its name in an error, and whether a value is of it."""

    name: str
    takes: Callable[[Any], bool]


_PLAIN: dict[Any, Kind] = {
    types.NoneType: Kind("None", lambda v: v is None),
    bool: Kind("True or False", lambda v: isinstance(v, bool) or type(v).__name__ in ("bool", "bool_")),
    int: Kind("a whole number", lambda v: isinstance(v, numbers.Integral) and not isinstance(v, bool)),
    float: Kind("a number", lambda v: isinstance(v, numbers.Real) and not isinstance(v, bool)),
    str: Kind("text", lambda v: isinstance(v, str)),
    bytes: Kind("bytes", lambda v: isinstance(v, bytes | bytearray | memoryview)),
    Callable: Kind("a function", callable),
    PathLike: Kind("a path", lambda v: isinstance(v, PathLike)),
}
_JUDGED = (type(None), bool, int, float, str, bytes, list, tuple, dict)


def checked(what: T) -> T:
    """The function, or the class with all its public methods, with arguments checked for their types."""
    return checked_but()(what)


def checked_but(*judged: str) -> Callable[[T], T]:
    """`checked`, but for parameters of these names, of which the verbs judge plain values themselves."""

    def checking(what: T) -> T:
        if not isinstance(what, type):
            return cast(T, _checking(cast(Callable[..., Any], what), judged))
        for name, member in list(vars(what).items()):
            if name.startswith("_") and name != "__init__":
                continue
            if isinstance(member, classmethod | staticmethod):
                setattr(what, name, type(member)(_checking(member.__func__, judged)))
            elif inspect.isfunction(member):
                setattr(what, name, _checking(member, judged))
        return what

    return checking


def require_session(spark: Any) -> None:
    """Raise InvalidRequest unless `spark` is a session of Spark."""
    if isinstance(spark, type) or not hasattr(spark, "createDataFrame"):
        raise InvalidRequest(f"spark {spark!r} must be a session: ts.spark.session()")


class _Parameter(NamedTuple):
    """A parameter with the kinds of values that it takes, None where the verb judges."""

    name: str
    kinds: list[Kind] | None
    judged: bool = False

    def require(self, value: Any, name: str) -> None:
        """Raise InvalidRequest unless the verb may see the value, given under this name."""
        if not (_takes(self.kinds, value) or (self.judged and isinstance(value, _JUDGED))):
            kinds = dict.fromkeys(kind.name for kind in self.kinds or () if kind.name != "None")
            raise InvalidRequest(f"{name} {_shown(value)} must be {' or '.join(kinds)}")
        many = self.kinds is None and isinstance(
            value, list | tuple
        )  # perhaps rows, which the verb reads once
        half = None if many else _half_a_character(value)
        if half is not None:
            text = f"{name} {_shown(half)} holds half of a character, which no file can store"
            raise InvalidRequest(text)


class _Parameters:
    """The parameters of a function."""

    def __init__(self, verb: Callable[..., Any], judged: Sequence[str]) -> None:
        self._by_name: dict[str, _Parameter] = {}
        self._by_place: list[_Parameter] = []
        self._more = self._others = _Parameter("", None)
        for name, p in inspect.signature(verb).parameters.items():
            parameter = _Parameter(name, _kinds(_hint(p.annotation, verb)), name in judged)
            if p.kind is p.VAR_POSITIONAL:
                self._more = parameter
            elif p.kind is p.VAR_KEYWORD:
                self._others = parameter
            else:
                self._by_name[name] = parameter
                if p.kind is not p.KEYWORD_ONLY:
                    self._by_place.append(parameter)

    def require(self, args: tuple[Any, ...], named: dict[str, Any]) -> None:
        """Raise InvalidRequest for the first argument that does not fit."""
        for parameter, value in zip(self._places(), args, strict=False):
            parameter.require(value, parameter.name)
        for name, value in named.items():
            self._by_name.get(name, self._others).require(value, name)

    def _places(self) -> Iterator[_Parameter]:
        return itertools.chain(self._by_place, itertools.repeat(self._more))


def _checking(verb: Callable[..., Any], judged: Sequence[str]) -> Callable[..., Any]:
    parameters = functools.cache(lambda: _Parameters(verb, judged))  # complete by the first call

    @functools.wraps(verb)
    def refusing(*args: Any, **named: Any) -> Any:
        parameters().require(args, named)
        return verb(*args, **named)

    return refusing


def _hint(annotation: Any, verb: Callable[..., Any]) -> Any:
    """The type that an annotation says; Any where a name is known to checkers of types only."""
    holder = types.SimpleNamespace(__annotations__={"it": annotation})
    try:
        return typing.get_type_hints(holder, verb.__globals__)["it"]
    except (NameError, AttributeError):
        return Any


def _kinds(hint: Any) -> list[Kind] | None:
    """The kinds of values of a type; None where a part of it is for the verb to judge."""
    parts = [_kind(part) for part in (typing.get_args(hint) if _is_union(hint) else (hint,))]
    kinds = [part for part in parts if part is not None]
    return kinds if len(kinds) == len(parts) and hint is not types.NoneType else None


def _is_union(hint: Any) -> bool:
    return typing.get_origin(hint) in (typing.Union, types.UnionType)


def _kind(hint: Any) -> Kind | None:
    origin = typing.get_origin(hint) or hint
    if origin in _PLAIN:
        return _PLAIN[origin]
    inner = [_kinds(part) for part in typing.get_args(hint) if part is not ...]
    if origin is Mapping:
        return Kind("a mapping", functools.partial(_is_mapping, inner=inner))
    if origin in (Sequence, Iterable, list, tuple):
        each = inner[0] if len(inner) == 1 else None
        of = f", each {' or '.join(kind.name for kind in each)}" if each else ""
        return Kind(f"a list{of}", functools.partial(_is_list, inner=each))
    if isinstance(origin, type) and origin.__module__.startswith("tablestore."):
        return Kind(f"{'an' if origin.__name__[0] in 'AEIO' else 'a'} {origin.__name__}", _of_class(origin))
    return None


def _of_class(kind: type) -> Callable[[Any], bool]:
    if not getattr(kind, "_is_protocol", False):
        return lambda value: isinstance(value, kind)
    verbs = [name for name in vars(kind) if not name.startswith("_")]

    def has_verbs(value: Any) -> bool:
        """One that forwards what it is asked for is not asked."""
        whole = hasattr(type(value), "__getattr__")
        return whole or all(hasattr(type(value), name) for name in verbs)

    return has_verbs


def _takes(kinds: list[Kind] | None, value: Any) -> bool:
    """Whether a value, plain or an Arrow scalar, fits."""
    value = value.as_py() if hasattr(type(value), "as_py") else value
    return kinds is None or any(kind.takes(value) for kind in kinds)


def _is_mapping(value: Any, inner: list[list[Kind] | None]) -> bool:
    if not isinstance(value, Mapping):
        return False
    return not inner or all(_takes(inner[0], k) and _takes(inner[1], v) for k, v in value.items())


def _is_list(value: Any, inner: list[Kind] | None) -> bool:
    """Whether this is a list of values or converts to one; frames and tables do not. What can be walked only
    once is not looked into."""
    if (
        not isinstance(value, Iterable)
        or isinstance(value, str | bytes | Mapping)
        or hasattr(value, "columns")
    ):
        return False
    return inner is None or not hasattr(value, "__len__") or all(_takes(inner, each) for each in value)


def _half_a_character(value: Any) -> str | None:
    """Text in the value that cannot be stored, also inside a mapping or a list; None if there is none."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError:
            return value
        return None
    inside = (*value.keys(), *value.values()) if isinstance(value, dict) else value
    if isinstance(inside, list | tuple):
        return next((v for v in inside if isinstance(v, str) and _half_a_character(v) is not None), None)
    return None


def _shown(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 60 and "\n" not in text else f"of type {type(value).__name__}"
    return ascii(text)[1:-1] if not text.isprintable() else text
