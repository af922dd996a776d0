"""The JSON functions with words among their arguments: `JSON_VALUE(j, '$.a' RETURNING INT NULL ON EMPTY)`.

Each becomes a call with plain arguments: behaviours are texts, `NULL`, `ERROR` or `=` before a default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from sqlglot import exp

from tablestore.sql.dialect.form_reader import FormReader

_NESTED = ("JSON_OBJECT", "JSON_ARRAY")
_EMPTY = {"EMPTY ARRAY": "=[]", "EMPTY OBJECT": "={}"}


def _value(p: FormReader) -> exp.Expression:
    json, path = _json_and_path(p)
    kind = p.type() if p.accept("RETURNING") else None
    behaviours = _behaviours(p)
    call = exp.Anonymous(
        this="JSON_VALUE", expressions=[json, path, behaviours["EMPTY"], behaviours["ERROR"]]
    )
    return call if kind is None else exp.Cast(this=call, to=kind)


def _query(p: FormReader) -> exp.Expression:
    json, path = _json_and_path(p)
    if p.comes("RETURNING"):
        p.refuse("JSON_QUERY … RETURNING", "it gives text")
    wrapper = "WITHOUT"
    if p.accept("WITHOUT"):
        p.accept("ARRAY")
        p.expect("WRAPPER")
    elif p.accept("WITH"):
        wrapper = "CONDITIONAL" if p.accept("CONDITIONAL") else "UNCONDITIONAL"
        p.accept("UNCONDITIONAL")
        p.accept("ARRAY")
        p.expect("WRAPPER")
    behaviours = _behaviours(p)
    arguments = [json, path, _text(wrapper), behaviours["EMPTY"], behaviours["ERROR"]]
    return exp.Anonymous(this="JSON_QUERY", expressions=arguments)


def _exists(p: FormReader) -> exp.Expression:
    json, path = _json_and_path(p)
    on_error = "FALSE"
    for word in ("TRUE", "FALSE", "UNKNOWN", "ERROR"):
        if p.accept(f"{word} ON ERROR"):
            on_error = word
    return exp.Anonymous(this="JSON_EXISTS", expressions=[json, path, _text(on_error)])


def _object(p: FormReader, name: str = "JSON_OBJECT") -> exp.Expression:
    members: list[Any] = []
    while not p.comes(")") and not _on_null_comes(p):
        p.accept("KEY")
        members.append(p.expr())
        if not p.accept(":"):
            p.expect("VALUE")
        members.append(_json(p.expr()))
        if not p.accept(","):
            break
    return exp.Anonymous(this=name, expressions=[_on_null(p, "NULL"), *members])


def _array(p: FormReader, name: str = "JSON_ARRAY") -> exp.Expression:
    values: list[Any] = []
    while not p.comes(")") and not _on_null_comes(p):
        values.append(_json(p.expr()))
        if not p.accept(","):
            break
    return exp.Anonymous(this=name, expressions=[_on_null(p, "ABSENT"), *values])


CALLS: Mapping[str, Callable[[FormReader], exp.Expression]] = MappingProxyType(
    {
        "JSON_VALUE": _value,
        "JSON_QUERY": _query,
        "JSON_EXISTS": _exists,
        "JSON_OBJECT": _object,
        "JSON_ARRAY": _array,
        "JSON_OBJECTAGG": lambda p: _object(p, "JSON_OBJECTAGG"),
        "JSON_ARRAYAGG": lambda p: _array(p, "JSON_ARRAYAGG"),
    }
)
"""What reads the arguments of a function, behind its opening bracket."""


def _json_and_path(p: FormReader) -> tuple[Any, Any]:
    json = p.expr()
    p.expect(",")
    return json, p.expr()


def _behaviours(p: FormReader) -> dict[str, exp.Expression]:
    """What ON EMPTY and ON ERROR say."""
    behaviours: dict[str, exp.Expression] = {"EMPTY": _text("NULL"), "ERROR": _text("NULL")}
    while not p.comes(")"):
        behaviour: exp.Expression
        words = next((words for words in ("NULL", "ERROR", *_EMPTY) if p.accept(words)), None)
        if words is not None:
            behaviour = _text(_EMPTY.get(words, words))
        else:
            p.expect("DEFAULT")
            default = exp.Cast(this=p.unary(), to=exp.DataType.build("VARCHAR"))
            behaviour = exp.DPipe(this=_text("="), expression=default)
        p.expect("ON")
        moment = "EMPTY" if p.accept("EMPTY") else "ERROR"
        if moment == "ERROR":
            p.expect("ERROR")
        behaviours[moment] = behaviour
    return behaviours


def _on_null_comes(p: FormReader) -> bool:
    return p.comes("NULL ON NULL") or p.comes("ABSENT ON NULL")


def _on_null(p: FormReader, otherwise: str) -> exp.Expression:
    for word in ("NULL", "ABSENT"):
        if p.accept(f"{word} ON NULL"):
            return _text(word)
    return _text(otherwise)


def _json(value: Any) -> Any:
    """A value as JSON; what is JSON already stays."""
    if isinstance(value, exp.Anonymous) and value.name.upper() in _NESTED:
        return value
    return exp.Anonymous(this="JSON_STRING", expressions=[value])


def _text(text: str) -> exp.Expression:
    return exp.Literal.string(text)
