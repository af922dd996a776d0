"""The SQL shell: a line editor with history, completion and colours over a session.

Enter runs what ends with a semicolon and otherwise begins a new line. Ctrl-C stops a statement or empties the
line, Ctrl-D ends the shell. Lines that begin with a backslash are the shell's own: see `\\?`.
"""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable
from pathlib import Path

from prompt_toolkit import PromptSession
from prompt_toolkit.auto_suggest import AutoSuggestFromHistory
from prompt_toolkit.completion import CompleteEvent, Completer, Completion
from prompt_toolkit.document import Document
from prompt_toolkit.filters import completion_is_selected, has_completions
from prompt_toolkit.history import FileHistory, History, InMemoryHistory
from prompt_toolkit.key_binding import KeyBindings, KeyPressEvent
from prompt_toolkit.lexers import PygmentsLexer
from pygments.lexers.sql import SqlLexer

import tablestore as ts
from tablestore.cli.places import cache_folder
from tablestore.cli.sql.output import show
from tablestore.core.options.secrets import is_secret
from tablestore.sql import Session
from tablestore.sql.completion import KnownNames, complete
from tablestore.sql.dialect.tokenizer import is_finished, pieces
from tablestore.sql.forms import FORMS
from tablestore.sql.problems import concealed

_ROWS = 100  # of a result that are shown
_QUIET_SECONDS = 1.0  # before there is a progress bar
_BAR = 30
GREETING = """\
Statements end with a semicolon; \\? lists them, \\q or Ctrl-D ends, Ctrl-C stops a statement.
SHOW DATABASES; then USE one of them; and SHOW TABLES; say what there is."""
_OWN = """\
\\? [WORDS]  the statements, those that begin with WORDS in full: \\? alter table
\\q          the end"""


class Shell:
    """Reads statements and shows their results until its user has enough."""

    def __init__(self, session: Session, history: History | None = None) -> None:
        self._session, self._names = session, KnownNames(session)
        session.on_progress = None
        self._reader: PromptSession[str] = PromptSession(
            history=history or own_history(),
            completer=SqlCompleter(self._names),
            complete_in_thread=False,  # a session is for one thread
            complete_while_typing=True,
            auto_suggest=AutoSuggestFromHistory(),
            lexer=PygmentsLexer(SqlLexer),
            multiline=True,
            prompt_continuation=lambda width, line, wrapped: " " * (width - 2) + "· ",
            key_bindings=keys(),
            reserve_space_for_menu=6,
        )

    def run(self) -> int:
        """Until \\q or Ctrl-D; gives the exit code."""
        print(GREETING)
        try:
            return self._read()
        finally:
            running = self._session.jobs.running()
            if running:
                print(f"stopping {', '.join(running)}")
                self._session.jobs.stop_all()

    def _read(self) -> int:
        while True:
            for problem in self._session.jobs.failures():
                print(in_red(problem))
            try:
                text = self._reader.prompt(self._prompt()).strip()
            except KeyboardInterrupt:
                continue
            except EOFError:
                return 0
            if text in ("\\q", "exit", "quit", "exit;", "quit;"):
                return 0
            if text.startswith(("\\?", "help")):
                print(help_text(text.removeprefix("\\?").removeprefix("help").strip(" ;")))
            elif text.startswith("\\"):
                print(f"there is no {text.split()[0]}\n{_OWN}")
            elif text:
                self._carry_out(text)
                self._names.forget()

    def _prompt(self) -> str:
        catalog = f"{self._session.catalog}." if self._session.catalog else ""
        return f"{catalog}{self._session.database if catalog else 'sql'}> "

    def _carry_out(self, text: str) -> None:
        """Run a script and show what it gives; an error or Ctrl-C ends it, not the shell."""
        bar = ProgressBar()
        self._session.on_progress = bar.show
        try:
            for result in self._session.script(text):
                width = shutil.get_terminal_size((120, 24)).columns
                if result.streaming:
                    bar.clear()
                    if not show(result, width=width):
                        return
                    bar.restart()
                    continue
                shown = result.text(rows=_ROWS, width=width)
                bar.clear()
                print(shown)
                bar.restart()
        except KeyboardInterrupt:
            bar.clear()
            print("stopped")
        except ts.TablestoreError as error:
            bar.clear()
            print(in_red(str(error)))
        finally:
            self._session.on_progress = None


def in_red(text: str) -> str:
    """An error as a terminal shows it."""
    return f"\x1b[31m{text}\x1b[0m" if sys.stdout.isatty() else text


class SqlCompleter(Completer):
    """What may stand at the cursor, for the line editor."""

    def __init__(self, names: KnownNames) -> None:
        self._names = names

    def get_completions(self, document: Document, complete_event: CompleteEvent) -> Iterable[Completion]:
        """While somebody types, only for what has begun; all with Tab."""
        text, at = document.text, document.cursor_position
        if text.startswith("\\"):
            return
        proposed = complete(text, at, self._names)
        if proposed.start == at and not complete_event.completion_requested:
            return
        for candidate in proposed.candidates:
            yield Completion(
                candidate.text,
                start_position=proposed.start - at,
                display_meta=candidate.note or candidate.kind,
            )


def keys() -> KeyBindings:
    """Enter: takes the completion that is chosen, runs a finished statement, else begins a line."""
    bindings = KeyBindings()

    @bindings.add("enter", filter=~(has_completions & completion_is_selected))
    def _(event: KeyPressEvent) -> None:
        buffer = event.current_buffer
        text = buffer.text.strip()
        own = text.startswith("\\") or text in ("exit", "quit", "help")
        if own or not text or is_finished(text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    @bindings.add("enter", filter=has_completions & completion_is_selected)
    def _(event: KeyPressEvent) -> None:
        event.current_buffer.complete_state = None

    return bindings


class ProgressBar:
    """A bar on the terminal, from the second second on; `show` gets percent, -1 where they are not known."""

    def __init__(self) -> None:
        self._shown = False
        self.restart()

    def restart(self) -> None:
        """The next statement begins now."""
        self._began = time.monotonic()

    def show(self, percent: float) -> None:
        """Draw it, if it is time for it."""
        passed = time.monotonic() - self._began
        if passed < _QUIET_SECONDS or not sys.stderr.isatty():
            return
        is_share = 0 <= percent <= 100
        done = round(_BAR * percent / 100) if is_share else 0
        share = f" {percent:3.0f} %" if is_share else ""
        print(
            f"\r\x1b[K{'━' * done}{'╌' * (_BAR - done)}{share} · {passed:.0f} s, Ctrl-C stops",
            end="",
            file=sys.stderr,
        )
        sys.stderr.flush()
        self._shown = True

    def clear(self) -> None:
        """Wipe it away."""
        if self._shown:
            print("\r\x1b[K", end="", file=sys.stderr)
            sys.stderr.flush()
            self._shown = False


def own_history() -> History:
    """What was typed before, in the user's cache; only in memory where that cannot be written."""
    path = history_file()
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        os.close(os.open(path, os.O_CREAT | os.O_APPEND, 0o600))
    except OSError:
        return InMemoryHistory()
    return OwnHistory(str(path))


class OwnHistory(FileHistory):
    """A file of what was typed, without statements that hold a secret: these are forgotten with the shell."""

    def store_string(self, string: str) -> None:
        """Keep it in the file."""
        if not holds_secret(string):
            super().store_string(string)


def holds_secret(text: str) -> bool:
    """Whether the text gives a value to a key such as 's3.secret-key', or has an address with a password."""
    try:
        tokens = [token for piece in pieces(text) for token in piece.tokens]
    except ts.TablestoreError:
        return True  # not read, so not known
    return concealed(text) != text or any(is_secret(token.text) for token in tokens)


def history_file() -> Path:
    """Where it is kept, for its user alone."""
    return cache_folder() / "sql-history"


def help_text(words: str = "") -> str:
    """The statements by family; those that begin with these words in full."""
    chosen = [form for form in FORMS if form.words.startswith(words.upper())]
    if words and chosen:
        return "\n\n".join(f"{form.syntax}\n  {form.text}" for form in chosen)
    lines = [_OWN if not words else f"no statement begins with {words}"]
    for family in dict.fromkeys(form.family for form in FORMS):
        lines += ["", family]
        width = max(len(form.words) for form in FORMS)
        lines += [f"  {form.words:<{width}}  {form.text}" for form in FORMS if form.family == family]
    return "\n".join(lines)
