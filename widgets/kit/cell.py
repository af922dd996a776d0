"""The cell of marimo in which a workbench is made: marimo takes a widget's code only from a cell.

Other notebooks take a new widget at any time; there nothing is done here. In marimo a thread of the cell, of
marimo's own kind, makes what is asked for later; before it ends it leaves another one. Safe: one at a time.
"""

import sys
import threading
from collections.abc import Callable
from typing import Any, TypeVar

T = TypeVar("T")


class NotebookCell:
    """The cell that runs when this is made."""

    def __init__(self) -> None:
        self._alone = threading.Lock()
        self._outcome: tuple[Any, Exception | None] = None, None
        self._make: Callable[[], Any] = type(None)
        self._thread = self._next()

    def run(self, make: Callable[[], T]) -> T:
        """What `make` gives, as if it ran in the cell; raises what it raises."""
        with self._alone:
            if self._thread is None:
                return make()
            self._make, thread = make, self._thread
            thread.start()
            thread.join()
            (given, error), self._outcome = self._outcome, (None, None)
        if error is not None:
            raise error
        result: T = given
        return result

    def _next(self) -> threading.Thread | None:
        marimo: Any = sys.modules.get("marimo")
        if marimo is None or not marimo.running_in_notebook():
            return None
        thread: threading.Thread = marimo.Thread(target=self._work, name="cell", daemon=True)
        return thread

    def _work(self) -> None:
        self._thread = self._next()
        try:
            self._outcome = self._make(), None
        except Exception as error:
            self._outcome = None, error
