"""ShopGame: the game "Keep the shop fast", played in the page while Python drives its ticks.

Traits: `stage` (1 … 5), `tick`, `playing`, `pace` (ticks come every TICK_MS / pace), `now` (what buttons, log
and live region show). A thread makes ticks, at most one every LEAST_MS; moves come in between, under one
lock. What was played is recorded as moves, so a page without a kernel plays it back: the same seed and moves
give the same pictures.
"""

from collections.abc import Iterable, Mapping
from threading import RLock
from typing import Any, Self

import pyarrow as pa
import traitlets

import tablestore as ts
from widgets.chart.axes import Asked
from widgets.game.figure import game_figure
from widgets.game.model import GameModel, game_model, spoken, text_form
from widgets.game.rules import MOVES, GameShop
from widgets.game.stages import STAGES
from widgets.kit import static
from widgets.kit.jobs import JobRunner, ViewJob, WorkingView
from widgets.kit.svg import Figure
from widgets.kit.view import module

TICK_MS, LEAST_MS = 600, 100
BESIDE = 860
"""A width at which a page shows race and score board beside each other, in addition to those it asks for."""


class ShopGame(WorkingView):
    """A game: orders stream into a table on a clock; keep reads, writes, space and stalls within budget.

    `stage` is 1 to 5. The same `seed` brings the same orders, also to the two ghosts, which play by universal
    and by leveled rules. `moves` are played at once: pairs of the tick after which one was made and its name;
    `ticks` says how far (None: to the last move). Other traits go by keyword.

    >>> game = widgets.ShopGame(1, seed=7)
    >>> game.advance(3).move("flush")
    'flushed 3,000 orders: 1 run'
    >>> game.tick, game.data().num_rows
    (3, 3)
    """

    chart = Asked(x="tick", y=("reads", "writes", "space"))
    _esm = module("game")
    verbs = ("restart",)
    stage = traitlets.Int(1).tag(sync=True)
    tick = traitlets.Int(0).tag(sync=True)
    playing = traitlets.Bool(False).tag(sync=True)
    pace = traitlets.Int(1).tag(sync=True)
    now = traitlets.Dict().tag(sync=True)

    def __init__(
        self,
        stage: int = 1,
        *,
        seed: int = 7,
        moves: Iterable[tuple[int, str]] = (),
        ticks: int | None = None,
        **kwargs: Any,
    ) -> None:
        self._jobs, self._play = JobRunner("game"), RLock()
        if not isinstance(stage, int) or not 1 <= stage <= len(STAGES):
            raise ts.InvalidRequest(f"ShopGame takes a stage from 1 to {len(STAGES)}, not {stage!r}")
        asked = sorted(moves, key=lambda move: move[0])
        if wrong := {name for _, name in asked} - set(MOVES):
            raise ts.InvalidRequest(f"{sorted(wrong)} are no moves; one of {', '.join(MOVES)}")
        self._seed, self._shop = seed, GameShop(STAGES[stage - 1], seed=seed)
        super().__init__(stage=stage, **kwargs)
        self._catch_up(asked, ticks)
        self.observe(lambda _change: self.restart(), "stage")
        self.observe(self._on_playing, "playing")

    def _catch_up(self, moves: list[tuple[int, str]], ticks: int | None) -> None:
        last = ticks if ticks is not None else (moves[-1][0] if moves else 0)
        with self._play:
            for _ in _course(self._shop, moves, last):
                pass
            self._show()

    @property
    def shop(self) -> GameShop:
        """The state of the game."""
        return self._shop

    @property
    def moves(self) -> tuple[tuple[int, str], ...]:
        """What was played until now: the tick after which a move was made, and its name."""
        return tuple(self._shop.moves)

    @property
    def code(self) -> str:
        """The call that gives this state again."""
        played = f"moves={list(self.moves)!r}, ticks={self.tick}"
        return f"widgets.ShopGame({self.stage}, seed={self._seed}, {played})"

    @property
    def model(self) -> GameModel:
        """What is shown."""
        with self._play:
            return game_model(self._shop)

    @traitlets.validate("stage")
    def _one_of_them(self, proposal: Mapping[str, Any]) -> int:
        return min(max(int(proposal["value"]), 1), len(STAGES))

    @traitlets.validate("pace")
    def _not_too_fast(self, proposal: Mapping[str, Any]) -> int:
        return min(max(int(proposal["value"]), 1), TICK_MS // LEAST_MS)

    def move(self, name: str) -> str:
        """Make a move now; what came of it, or why it cannot be made. Raises InvalidRequest for none."""
        if name not in MOVES:
            raise ts.InvalidRequest(f"{name!r} is no move; one of {', '.join(MOVES)}")
        with self._play:
            words = self._shop.do(name)
            self._show(said=words)
        return words

    def advance(self, ticks: int = 1) -> Self:
        """Let ticks pass at once."""
        with self._play:
            for _ in range(ticks):
                self._shop.tick()
            self._show()
        return self

    def restart(self) -> Self:
        """The stage from its first tick."""
        self._jobs.stop()
        with self._play:
            self._shop = GameShop(STAGES[self.stage - 1], seed=self._seed)
            self.playing = False
            self._show()
        return self

    def refresh(self) -> Self:
        """Draw the state again."""
        self._show()
        return self

    def _on_playing(self, change: Mapping[str, Any]) -> None:
        if not change["new"]:
            self._jobs.stop()
        elif self._shop.over:
            self.playing = False
        else:
            self._jobs.restart(self._run, patience=0)

    def _run(self, job: ViewJob) -> None:
        """A tick after another, until the stage is over or the clock is stopped."""
        while not self._shop.over:
            job.sleep(TICK_MS / self.pace / 1000)
            with self._play:
                job.check()
                self._shop.tick()
                self._show()
        self.playing = False

    def _on_verb(self, widget: object, content: Mapping[str, Any], buffers: object) -> None:
        verb = str(content.get("verb"))
        if verb in MOVES:
            self.move(verb)
        elif verb == "tick":
            self.advance()
        else:
            super()._on_verb(widget, content, buffers)

    def _show(self, *, said: str = "") -> None:
        """Draw the shop as it stands; callers hold the lock where it may move."""
        model = game_model(self._shop)
        self.tick = model.tick
        self.frame = {**self.words(width=self.width), **static.frame(game_figure(model, width=self.width))}
        self.now = _point(model, said)

    def redraw(self) -> None:
        """Draw the state at the present width."""
        with self._play:
            self._show()

    def figure(self, *, width: float) -> Figure:
        """The game as it stands."""
        return game_figure(self.model, width=width)

    def words(self, *, width: float) -> dict[str, Any]:
        """Title and what the stage is about."""
        stage = self._shop.stage
        return {
            "title": "Keep the shop fast",
            "subtitle": f"stage {stage.number}: {stage.name}",
        }

    def text(self) -> str:
        """The game in a terminal."""
        return text_form(self.model)

    def data(self) -> pa.Table:
        """How the budgets stood after each tick."""
        schema = pa.schema(
            {
                "tick": pa.int64(),
                "reads": pa.float64(),
                "writes": pa.float64(),
                "space": pa.float64(),
                "stalls": pa.int64(),
                "score": pa.int64(),
                "runs": pa.float64(),
            }
        )
        rows = [{name: getattr(reading, name) for name in schema.names} for reading in self._shop.readings]
        return pa.Table.from_pylist(rows, schema=schema)

    def export(self, *, widths: tuple[int, ...]) -> dict[str, Any]:
        """The moves that were made, played again: a picture after each tick and each move until now."""
        widths = tuple(sorted({*widths, BESIDE}, reverse=True))
        with self._play:
            shop, moves, last = (
                GameShop(self._shop.stage, seed=self._seed),
                list(self.moves),
                self._shop.tick_number,
            )
            words = self.words(width=widths[0])
        models = [(game_model(shop), "")]
        models += [(game_model(shop), move) for move in _course(shop, moves, last)]
        return {
            "kind": "game",
            "reply": "game",
            "widths": list(widths),
            "words": words,
            "frames": {
                str(width): [static.frame(game_figure(model, width=width)) for model, _ in models]
                for width in widths
            },
            "points": [{**_point(model, ""), "move": move} for model, move in models],
            "state": {"stage": self.stage, "tick": last, "at": len(models) - 1, "playing": False, "pace": 1}
            | {"now": {}, "hovered": "", "selected": (), "width": widths[0], "frame": {}},
        }


def _course(shop: GameShop, moves: list[tuple[int, str]], last: int) -> Iterable[str]:
    """Plays a shop up to the tick `last`: the name of each move when it was made, "" after each tick."""
    rest = list(moves)
    while True:
        while rest and rest[0][0] <= shop.tick_number:
            shop.do(rest[0][1])
            yield rest.pop(0)[1]
        if shop.tick_number >= last or shop.over:
            return
        shop.tick()
        yield ""


def _point(model: GameModel, said: str) -> dict[str, Any]:
    """What buttons, log and live region show."""
    return {
        "tick": model.tick,
        "over": model.over,
        "refusals": dict(model.refusals),
        "log": [[event.tick, event.who, event.words] for event in reversed(model.log)],
        "says": said or (model.verdict if model.over else spoken(model)),
        "loud": bool(said) or model.over or model.tick % 10 == 0,
    }
