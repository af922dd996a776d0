"""What a notebook cannot do without: where it is not there the notebook ends with one sentence."""

from __future__ import annotations


class NotHere(Exception):
    """Something is missing on this machine. A cell shows its sentence, without a traceback."""

    def _render_traceback_(self) -> list[str]:
        return [str(self)]


def need(missing: str) -> None:
    """End the notebook unless `missing`, what to install, is empty. Raises NotHere.

    >>> need("")
    """
    if missing:
        raise NotHere(f"This notebook ends here: {missing}")
