"""A cluster whose answers are wrong in a field, in bytes or in their frames: whatever a client asks for, and
a round of tiering, ends with one error or with rows. The machinery is that of
`fluss/test_hostile_answers.py`.
"""

from __future__ import annotations

import random
from pathlib import Path

from tests.campaign.outcome import Outcome
from tests.fluss.test_hostile_answers import VERBS, strange, walked

ANSWERS = 40
"""A turn, of one verb of a client."""


def run(seed: int, folder: Path) -> Outcome:
    """Wrong answers to one verb; every other turn it is a round of tiering."""
    draw = random.Random(f"{seed} hostile answers")
    verb = "tier" if seed % 2 else draw.choice(VERBS)
    with strange(folder) as stranger:
        try:
            count = walked(
                *(stranger, folder, verb),
                lambda actual: draw.sample(actual, min(ANSWERS, len(actual))),
                frames=True,
            )
        except AssertionError as e:
            return Outcome(ANSWERS, wrong=(f"{verb}: {e}",))
    return Outcome(count, {f"wrong answers to {verb}": count})
