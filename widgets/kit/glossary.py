"""One table of the words that a newcomer asks about; captions and lessons show it as a card on hover.

Each word has one meaning everywhere. Pure. Called by `assets`, which sends it to the page, and by the course.
"""

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Term:
    """A word, what it means in one or two sentences, and other forms of it."""

    name: str
    meaning: str
    forms: tuple[str, ...] = ()


TERMS = (
    Term(
        "run",
        "Rows sorted by key, no key twice: one file of level 0, or all files of an older level. "
        "Runs are what a read pays for.",
        ("runs", "sorted run", "sorted runs"),
    ),
    Term("lane", "One row of a picture: a run of level 0, a whole older level, or one actor.", ("lanes",)),
    Term(
        "level",
        "Where a run lies. At level 0 every flush is a run of its own; from level 1 on a level is one run. "
        "A larger number means older rows.",
        ("levels",),
    ),
    Term(
        "trigger",
        "How many runs there must be before the rules look at sizes: num-sorted-run.compaction-trigger.",
        ("triggers",),
    ),
    Term("due", "A compaction is due when a rule fires for the runs there are now."),
    Term(
        "early full",
        "The rule before all others: everything is compacted into the oldest level, by a clock or while the "
        "bucket is below a size. Off unless an option asks for it.",
    ),
    Term(
        "lift level 0",
        "The rule after all others: level 0 is emptied, whatever the sizes say. Off unless an option asks "
        "for it.",
    ),
)
_FORMS = {form: term for term in TERMS for form in (term.name, *term.forms)}
_WORD = re.compile(
    r"\b(" + "|".join(sorted(map(re.escape, _FORMS), key=len, reverse=True)) + r")\b", re.IGNORECASE
)


def meaning(word: str) -> str:
    """What a word, in any of its forms, means. Raises KeyError for one that is not in the table."""
    return _FORMS[word.lower()].meaning


def found(text: str) -> list[Term]:
    """The terms of a text in the order in which they first come."""
    return list(dict.fromkeys(_FORMS[word.lower()] for word in _WORD.findall(text)))


def for_page() -> dict[str, list[str]]:
    """Form → [name, meaning], the longest form first, as the page's script wants it."""
    return {form: [_FORMS[form].name, _FORMS[form].meaning] for form in sorted(_FORMS, key=len, reverse=True)}
