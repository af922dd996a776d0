"""Words of a statement as MariaDB and MySQL cut it: names, strings, comments, executable comments.

Executable comments (/*! … */, /*M! … */) count as if they were executed, whatever their version.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

WORD, NAME, STRING, SIGN = "word", "name", "string", "sign"
_PLAIN = r"[0-9A-Za-z_$\u0080-\U0010ffff]+"
_SPACE = r"[ \t\r\n\f\v\0]+|--(?=[\s\0]|\Z)[^\n]*|\#[^\n]*|/\*(?!M?!).*?\*/|/\*M?!\d{0,6}|\*/"


def _pattern(string: str, quoted: str) -> re.Pattern[str]:
    parts = (
        f"(?P<space>{_SPACE})",
        "(?P<name>`(?:[^`]|``)*`)",
        f"(?P<string>{string})",
        f"(?P<quoted>{quoted})",
        f"(?P<word>{_PLAIN})",
        "(?P<sign>.)",
    )
    return re.compile("|".join(parts), re.DOTALL)


_ESCAPES = _pattern(r"'(?:[^'\\]|\\.|'')*'", r'"(?:[^"\\]|\\.|"")*"')
_NO_ESCAPES = _pattern("'(?:[^']|'')*'", '"(?:[^"]|"")*"')


class UnknownStatement(ValueError):
    """The statement is none that this reader knows."""


@dataclass(frozen=True, slots=True)
class SqlToken:
    """A part of a statement. Of names and strings `text` is what they say, of other tokens what is written;
    a text in double quotes is a STRING, and a name where only names can stand (ANSI_QUOTES)."""

    kind: str
    text: str
    double: bool = False

    def is_word(self, *words: str) -> bool:
        """Whether it is one of these words, which are in capitals, without quotes."""
        return self.kind == WORD and self.text.upper() in words


def tokens(text: str, *, backslashes: bool = True) -> list[SqlToken]:
    """The tokens of a statement; `backslashes` escape in strings (not so with NO_BACKSLASH_ESCAPES). Raises
    UnknownStatement where a quote or a comment has no end."""
    cut: list[SqlToken] = []
    for match in (_ESCAPES if backslashes else _NO_ESCAPES).finditer(text):
        part, kind = match[0], match.lastgroup
        if kind == "name":
            cut.append(SqlToken(NAME, part[1:-1].replace("``", "`")))
        elif kind in ("string", "quoted"):
            said = part[1:-1].replace(2 * part[0], part[0])
            said = re.sub(r"\\(.)", r"\1", said, flags=re.DOTALL) if backslashes else said
            cut.append(SqlToken(STRING, said, double=part[0] == '"'))
        elif kind == "word":
            cut.append(SqlToken(WORD, part))
        elif kind == "sign":
            if part in "'\"`" or (part == "*" and cut and cut[-1].text == "/"):
                raise UnknownStatement("a quote or comment without an end")
            cut.append(SqlToken(SIGN, part))
    return cut


@dataclass
class TokenCursor:
    """Reads tokens one after the other."""

    tokens: Sequence[SqlToken]
    at: int = field(default=0)

    @property
    def rest(self) -> Sequence[SqlToken]:
        return self.tokens[self.at :]

    def peek(self, further: int = 0) -> SqlToken:
        """The next token; an empty sign at the end."""
        place = self.at + further
        return self.tokens[place] if place < len(self.tokens) else SqlToken(SIGN, "")

    def sees(self, *words: str) -> bool:
        """Whether these words are next."""
        return all(self.peek(i).is_word(word) for i, word in enumerate(words))

    def accept(self, *words: str) -> bool:
        """Pass over these words if they are next."""
        seen = self.sees(*words)
        self.at += len(words) * seen
        return seen

    def accept_one(self, *words: str) -> bool:
        """Pass over any one of these words if it is next."""
        return any(self.accept(word) for word in words)

    def sign(self, sign: str) -> bool:
        """Pass over a sign if it is next."""
        seen = self.peek().kind == SIGN and self.peek().text == sign
        self.at += seen
        return seen

    def name(self) -> str:
        """The next token as a name; raises UnknownStatement where none can be."""
        token = self.peek()
        if token.kind not in (WORD, NAME) and not token.double:
            raise UnknownStatement(f"{token.text!r} where a name is")
        self.at += 1
        return token.text

    def qualified(self, database: str) -> tuple[str, str]:
        """The next name of a table, with its database."""
        first = self.name()
        return (first, self.name()) if self.sign(".") else (database, first)

    def listed(self) -> list[Sequence[SqlToken]]:
        """What stands in the brackets that begin here, by its commas; nothing without brackets."""
        if not self.sign("("):
            return []
        begin, depth = self.at, 1
        while depth:
            token = self.peek()
            if self.at >= len(self.tokens):
                raise UnknownStatement("a bracket without an end")
            depth += token.kind == SIGN and {"(": 1, ")": -1}.get(token.text, 0)
            self.at += 1
        return list(by_commas(self.tokens[begin : self.at - 1]))


def by_commas(tokens: Sequence[SqlToken]) -> Iterator[Sequence[SqlToken]]:
    """The parts between commas that are in no brackets."""
    begin = depth = 0
    for i, token in enumerate(tokens):
        if token.kind == SIGN:
            depth += {"(": 1, ")": -1}.get(token.text, 0)
            if token.text == "," and not depth:
                yield tokens[begin:i]
                begin = i + 1
    yield tokens[begin:]
