"""Checks of arguments of the public API: a value whose type the parameter does not take is one
InvalidRequest.

`checked` decorates a function, or a class and thereby all its public methods. Numbers, booleans, functions
and stores are checked against the signature before the call, as a wrong one might be met after a commit. All
other arguments are looked at only if the call raises: then the error names the argument that does not fit,
instead of a line inside the engine. A method's own message about an argument is more helpful and stays. A
correct call costs a microsecond.
"""

from __future__ import annotations

import functools
import inspect
import numbers
from collections.abc import Callable, Iterable, Mapping
from os import PathLike
from typing import Any, TypeVar, cast

from tablestore.core.errors import InvalidRequest, TablestoreError

T = TypeVar("T")


def _is_a(value: Any, name: str) -> bool:
    return any(c.__name__ == name for c in type(value).__mro__)


def _has(value: Any, *names: str) -> bool:
    """Whether its class has these methods; one that forwards what it is asked for is not asked."""
    return hasattr(type(value), "__getattr__") or all(hasattr(type(value), name) for name in names)


_KINDS: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "None": ("None", lambda v: v is None),
    "bool": ("True or False", lambda v: isinstance(v, bool) or type(v).__name__ in ("bool_", "bool")),
    "int": ("a whole number", lambda v: isinstance(v, numbers.Integral) and not isinstance(v, bool)),
    "float": ("a number", lambda v: isinstance(v, numbers.Real) and not isinstance(v, bool)),
    "Callable": ("a function", callable),
    "str": ("text", lambda v: isinstance(v, str)),
    "bytes": ("bytes", lambda v: isinstance(v, bytes | bytearray | memoryview)),
    "PathLike": ("a path", lambda v: isinstance(v, PathLike)),
    "Mapping": ("a mapping", lambda v: isinstance(v, Mapping)),
    "Sequence": ("a list", lambda v: _listed(v)),
    "Iterable": ("a list", lambda v: _listed(v)),
    "FileIO": ("a FileIO", lambda v: _has(v, "read", "write_new", "list")),
    "Env": ("an Env", lambda v: _has(v, "now_ms", "uuid")),
}
_CLASSES = ("Store", "Snapshot", "DataSplit", "Predicate", "Workload", "Run", "Simulator", "Schedule")
_KINDS |= {name: (f"a {name}", functools.partial(_is_a, name=name)) for name in _CLASSES}
_FUNCTIONS = ("ProgressCallback", "RowChanger", "RowInserts")
_ALIASES = {"Name": ["str", "Sequence[str]"]} | {name: ["Callable"] for name in _FUNCTIONS}
_FIRST = {"bool", "int", "float", "Callable", "None", "FileIO", "Env"}
_COMPLAINTS = (TypeError, AttributeError, ValueError, LookupError, OverflowError)


class Parameter:
    """What a parameter takes, read from its annotation; anything where a type is not known here."""

    def __init__(self, name: str, annotation: str) -> None:
        self.name, self._parts = name, [_part(text) for text in _alternatives(annotation)]
        kinds = [kind for kind, _ in self._parts]
        self.known = all(kind in _KINDS for kind in kinds) and kinds != ["None"]
        self.first = self.known and set(kinds) <= _FIRST

    def takes(self, value: Any) -> bool:
        """Whether a value, plain or an Arrow scalar, fits, with the elements of lists and mappings."""
        value = value.as_py() if hasattr(type(value), "as_py") else value
        return not self.known or any(_fits(value, kind, inner) for kind, inner in self._parts)

    def refusal(self, value: Any) -> InvalidRequest:
        """The error for a value that does not fit."""
        wanted = " or ".join(dict.fromkeys(_KINDS[kind][0] for kind, _ in self._parts if kind != "None"))
        return InvalidRequest(f"{self.name} {_shown(value)} must be {wanted}")


def checked(what: T, *, eager: bool = False) -> T:
    """The function, or the class with all its public methods, with arguments checked for their types."""
    if not isinstance(what, type):
        return cast(T, _wrapped(cast(Callable[..., Any], what), eager=eager))
    for name, member in list(vars(what).items()):
        if name.startswith("_") and name != "__init__":
            continue
        if isinstance(member, classmethod | staticmethod):
            setattr(what, name, type(member)(_wrapped(member.__func__)))
        elif inspect.isfunction(member):
            setattr(what, name, _wrapped(member))
    return what


def eagerly_checked(what: T) -> T:
    """`checked`, with every argument before the call: for constructors of values that are used only later."""
    return checked(what, eager=True)


def require_session(spark: Any) -> None:
    """Raise InvalidRequest unless `spark` is a session of Spark."""
    if isinstance(spark, type) or not hasattr(spark, "createDataFrame"):
        raise InvalidRequest(f"spark {spark!r} must be a session: ts.spark.session()")


def _wrapped(verb: Callable[..., Any], *, eager: bool = False) -> Callable[..., Any]:
    signature = inspect.signature(verb)

    @functools.cache
    def parameters() -> dict[str, Parameter]:
        every = signature.parameters.values()
        named = (p for p in every if p.annotation is not p.empty)
        return {p.name: Parameter(p.name, _element(p)) for p in named}

    @functools.cache
    def first() -> list[tuple[int | None, Parameter]]:
        """Parameters to check before the call, with their positions (None: keyword-only)."""
        places = {
            n: i for i, (n, p) in enumerate(signature.parameters.items()) if p.kind is not p.KEYWORD_ONLY
        }
        return [(places.get(n), p) for n, p in parameters().items() if p.first]

    @functools.wraps(verb)
    def refusing(*args: Any, **named: Any) -> Any:
        if eager and (wrong := _wrong(signature, parameters(), args, named)) is not None:
            raise wrong
        for place, parameter in first():
            if parameter.name in named:
                value = named[parameter.name]
            elif place is not None and place < len(args):
                value = args[place]
            else:
                continue
            if not parameter.takes(value):
                raise parameter.refusal(value)
        try:
            return verb(*args, **named)
        except TablestoreError:
            raise
        except _COMPLAINTS as error:
            wrong = _wrong(signature, parameters(), args, named, _BEYOND.get(type(error)))
            if wrong is None:
                raise
            raise wrong from error

    return refusing


def _wrong(
    signature: inspect.Signature,
    parameters: Mapping[str, Parameter],
    args: Any,
    named: Any,
    beyond: Callable[[Any], str | None] | None = None,
) -> InvalidRequest | None:
    """The error for the first argument that does not fit, or that `beyond` finds wrong."""
    try:
        bound = signature.bind(*args, **named).arguments
    except TypeError:
        return None  # Python's own messages about missing and unknown names are good
    for name, value in bound.items():
        parameter = parameters.get(name)
        if parameter is None:
            continue
        kind = signature.parameters[name].kind
        values = value if kind is inspect.Parameter.VAR_POSITIONAL else [value]
        values = value.values() if kind is inspect.Parameter.VAR_KEYWORD else values
        for each in values:
            if not parameter.takes(each):
                return parameter.refusal(each)
            if beyond is not None and (why := beyond(each)) is not None:
                return InvalidRequest(f"{name} {_shown(each)} {why}")
    return None


def _too_large(value: Any) -> str | None:
    large = isinstance(value, int) and not -(1 << 31) <= value < 1 << 31
    return "is too large a number" if large else None


def _half_a_character(value: Any) -> str | None:
    """What is wrong with text that cannot be stored, also inside a mapping or a list; None if nothing."""
    if isinstance(value, Mapping):
        value = [*value.keys(), *value.values()]
    for text in value if isinstance(value, list | tuple) else [value]:
        if isinstance(text, str) and any("\ud800" <= c <= "\udfff" for c in text):
            return "holds half of a character, which no file can store"
    return None


_BEYOND: dict[type[BaseException], Callable[[Any], str | None]] = {
    OverflowError: _too_large,
    UnicodeEncodeError: _half_a_character,
}


def _element(p: inspect.Parameter) -> str:
    return p.annotation if isinstance(p.annotation, str) else getattr(p.annotation, "__name__", "Any")


def _alternatives(annotation: str) -> list[str]:
    """The parts of `a | b[c | d]` between the outer bars."""
    parts, depth = [""], 0
    for c in annotation:
        depth += (c in "[(") - (c in "])")
        if c == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += c
    found = [part.strip() for part in parts]
    return [each for part in found for each in _ALIASES.get(part, [part])]


def _part(text: str) -> tuple[str, list[Parameter]]:
    """`Mapping[str, Any]` as its kind and what it holds."""
    name, _, inner = text.partition("[")
    kind = name.rpartition(".")[2]
    if kind not in ("Mapping", "Sequence", "Iterable") or not inner:
        return kind, []
    parts, depth = [""], 0
    for c in inner[:-1]:
        depth += (c in "[(") - (c in "])")
        if c == "," and not depth:
            parts.append("")
        else:
            parts[-1] += c
    return kind, [Parameter("", part) for part in parts]


def _fits(value: Any, kind: str, inner: list[Parameter]) -> bool:
    if not _KINDS[kind][1](value):
        return False
    if kind == "Mapping" and len(inner) == 2:
        return all(inner[0].takes(k) and inner[1].takes(v) for k, v in value.items())
    if inner and hasattr(value, "__len__"):
        return all(inner[0].takes(each) for each in value)
    return True


def _listed(value: Any) -> bool:
    """Whether this is a list of values or converts to one; frames and tables do not."""
    return (
        isinstance(value, Iterable)
        and not isinstance(value, str | bytes | Mapping)
        and not hasattr(value, "columns")
    )


def _shown(value: Any) -> str:
    text = repr(value)
    text = text if len(text) <= 60 and "\n" not in text else f"of type {type(value).__name__}"
    return ascii(text)[1:-1] if not text.isprintable() else text
