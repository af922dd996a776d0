"""What the lessons claim, as plain functions with assertions: one module a notebook, `lesson_02` for 02.

`claims` says which sentences of the lesson a check proves; the numbers of the first lessons are all in one.
A cell names the checks that follow it by tags, `check:the_first_file`. The names of a check's parameters are
those of the notebook. A learner meets none of it: the tests put the calls behind the cells and run them.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any

TAG = "check:"
"""How a tag of a cell begins that names a check."""


Check = Callable[..., None]


def claims(*sentences: str) -> Callable[[Check], Check]:
    """Which parts of a lesson's sentences a check proves, in the lesson's own words."""

    def marked(check: Check) -> Check:
        vars(check)["claims"] = sentences
        return check

    return marked


def call(check: Check, values: Mapping[str, Any]) -> None:
    """Run a check with those of `values`, the names of a notebook, that it asks for.

    Raises AssertionError where the notebook claims what is not so, KeyError for a name that it does not have.
    """
    check(**{name: values[name] for name in inspect.signature(check).parameters})
