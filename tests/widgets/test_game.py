"""The game: the same seed and moves give the same score, each stage can be won and is lost by sleeping."""

from __future__ import annotations

import time
from functools import cache
from xml.etree import ElementTree

import pytest

import tablestore as ts
from tests.widgets.players import PLAYERS, PlayersPlan, looks_ahead
from widgets import ShopGame
from widgets.game.figure import game_figure
from widgets.game.model import game_model, ghosts
from widgets.game.rules import (
    DOUBLE,
    FLUSH,
    FULL,
    LOWER,
    MOVES,
    POINTS,
    RAISE,
    STEP,
    STRATEGY,
    GameShop,
    Policy,
    nothing,
    played,
    played_by,
    universal,
)
from widgets.game.stages import MIB, STAGES, Budgets, Spell, Stage

SMALL = Stage(
    1,
    "small",
    "few orders",
    Budgets(reads=4, writes=4, space=2, stalls=3),
    rows=200,
    buffer=800,
    ticks=20,
    spells=(Spell(10, 12, "many orders", rows=600, disk_mib=0.5),),
)


WINNERS = ("trigger 4", "full by the clock", "leveled, trigger 2", "doubles twice", "raises before the rush")
"""Of the players, one who wins each stage."""
KEEPER = PLAYERS["trigger 4"]


def winner(stage: Stage) -> PlayersPlan:
    return PLAYERS[WINNERS[stage.number - 1]]


@cache
def game_of(player: Policy, number: int) -> GameShop:
    """A stage played to its end with seed 7, once for all tests, which only look at it."""
    return played_by(player, STAGES[number - 1], seed=7)


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
@pytest.mark.sample(2)
def test_a_stage_is_won_by_its_own_answer_and_lost_by_sleep(stage: Stage) -> None:
    awake, asleep = game_of(winner(stage), stage.number), game_of(nothing, stage.number)
    assert awake.won, awake.shares()
    assert not asleep.won
    assert awake.score > asleep.score
    for name, readings in ghosts(stage, seed=7).items():
        assert awake.score > readings[-1].score + 30, name


@pytest.mark.large
@pytest.mark.parametrize("seed", [7, 1, 2, 3, 4])
@pytest.mark.sample(1, all=2)
def test_no_player_wins_more_than_three_stages_and_one_who_looks_ahead_wins_all(seed: int) -> None:
    """Each stage has another answer: by leveled rules one, by a high trigger in a rush one, by neither."""
    won = {
        name: [stage.number for stage in STAGES if played_by(plan, stage, seed=seed).won]
        for name, plan in PLAYERS.items()
    }
    assert len(won) == 14
    assert max(map(len, won.values())) <= 3, won
    assert all("leveled" in name for name, stages in won.items() if 3 in stages), won
    assert all(PLAYERS[name].rush for name, stages in won.items() if 5 in stages), won
    plain = [stages for name, stages in won.items() if "leveled" not in name and not PLAYERS[name].rush]
    assert {1, 2, 4} <= set().union(*plain), won
    for stage in STAGES:
        shop = played_by(looks_ahead(stage, seed=seed), stage, seed=seed)
        assert shop.won, (stage.name, seed, shop.shares())


@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: stage.name)
@pytest.mark.sample(2)
def test_who_only_flushes_or_only_steps_loses(stage: Stage) -> None:
    def flushes(shop: GameShop) -> str | None:
        full = shop.waiting + stage.rows_at(shop.tick_number + 1) > stage.buffer
        return FLUSH if full else None

    def steps(shop: GameShop) -> str | None:
        return None if shop.refusal(STEP) else STEP

    for lazy in (flushes, steps):
        shop = played_by(lazy, stage, seed=7)
        assert not shop.won
        assert shop.score < min(game_of(winner(stage), stage.number).score, 600)


def test_a_compaction_is_at_work_until_the_disk_has_done_it() -> None:
    shop = GameShop(Stage(1, "slow", "", SMALL.budgets, rows=200, buffer=800, disk_mib=0.3), seed=1)
    for _ in range(5):
        shop.tick()
        shop.do(FLUSH)
    before = shop.table.inspect.levels(bucket=0)["file_name"].to_pylist()
    assert shop.runs == 5
    shop.do(STEP)
    work, ticks = shop.works[0], shop.busy[0]
    assert work is not None
    assert ticks > 3
    assert set(work.inputs) == set(before)
    spaces = [shop.last.space]
    shop.tick()
    shop.do(FLUSH)
    assert shop.runs == shop.runs_of(0) == 6, "readers meet what is merged until it is done"
    (tree,) = game_model(shop).trees
    assert tree.levels.runs == 6
    assert tree.running is not None
    assert tree.running.share == pytest.approx(1 / ticks)
    names = tree.levels.columns.table["file_name"].to_pylist()
    assert set(before) < set(names)
    assert not set(work.outputs) & set(names)
    drawn = game_figure(game_model(shop), width=1040)
    assert "at work: compaction into L5" in drawn.body
    spaces.append(shop.last.space)
    while shop.works[0]:
        shop.tick()
    assert shop.runs == 2
    assert spaces[1] > spaces[0], "its inputs are stored until it is done"
    assert game_model(shop).trees[0].running is None


def test_writers_wait_for_a_compaction_at_work_when_runs_are_too_many() -> None:
    shop = GameShop(Stage(1, "slow", "", SMALL.budgets, rows=200, buffer=800, disk_mib=0.05), seed=1)
    for _ in range(shop.stage.ticks):
        shop.tick()
        shop.do(FLUSH)
        shop.do(STEP)
        if shop.stalls:
            break
    stop = shop.table.rules.stop_trigger
    waits = [event.words for event in shop.log if event.who == "writers wait"]
    assert waits == [f"runs {stop + 1} > stop trigger {stop}: a compaction is still at work"]


def test_every_bucket_is_drawn() -> None:
    shop = GameShop(SMALL, seed=1)
    for tick in range(16):
        shop.tick()
        shop.do(FLUSH)
        if tick in (4, 8, 12):
            shop.busy = [0.0] * len(shop.busy)
            shop.do(DOUBLE)
            many = len(shop.busy)
            model = game_model(shop)
            assert [tree.levels.bucket for tree in model.trees] == list(range(many))
            for width in (1040, 660, 324):
                body = game_figure(model, width=width).body
                assert [f">bucket {n}<" in body for n in range(9)] == [n < many for n in range(9)]
    assert many == 8


def test_the_same_moves_give_the_same_game() -> None:
    game = played_by(KEEPER, STAGES[4], seed=11)
    again = played(STAGES[4], seed=11, moves=game.moves)
    assert again.readings == game.readings
    assert again.log == game.log
    assert played_by(KEEPER, STAGES[4], seed=12).readings != game.readings


def test_the_defaults_win_the_first_stage_alone() -> None:
    assert [game_of(universal, stage.number).won for stage in STAGES] == [True, *[False] * 4]


def test_orders_are_conserved() -> None:
    shop = played_by(universal, SMALL, seed=1)
    came = sum(SMALL.rows_at(tick) for tick in range(1, SMALL.ticks + 1))
    flushed = sum(
        int(event.words.partition("flushed ")[2].split()[0].replace(",", ""))
        for event in shop.log
        if "flushed " in event.words
    )
    assert flushed + shop.waiting == came


def test_the_numbers_are_the_simulations() -> None:
    shop = played_by(universal, SMALL, seed=1)
    state = shop.table.inspect.amplification("table").to_pylist()[0]
    assert shop.last.writes == pytest.approx(state["write_amplification"])
    assert shop.last.runs == state["runs"]


def test_a_step_is_the_engines_pick_and_keeps_the_disk_busy() -> None:
    shop = GameShop(SMALL, seed=1)
    for _ in range(5):
        shop.tick()
        shop.do(FLUSH)
    wanted = shop.table.compact(dry_run=True).picks[0].decision.text
    assert shop.do(STEP) == wanted
    done = shop.table.inspect.compactions().to_pylist()[-1]
    moved = done["bytes_read"] + done["bytes_written"]
    assert shop.busy == [pytest.approx(moved / (SMALL.disk_mib * MIB))]


def test_more_buckets_share_a_slow_disk_and_cost_those_who_scan() -> None:
    for stage, fewer in ((STAGES[3], True), (STAGES[0], False)):
        many, single = (game_of(plan, stage.number) for plan in (PLAYERS["doubles twice"], KEEPER))
        assert many.last.writes > single.last.writes
        assert (many.last.reads < single.last.reads) == fewer
        assert many.asked == many.runs * (1 + stage.scans * 3)
        assert many.won == fewer


def test_a_busy_disk_refuses_steps_and_works_tick_by_tick() -> None:
    shop = GameShop(Stage(1, "slow", "", SMALL.budgets, rows=200, buffer=800, disk_mib=0.2), seed=1)
    for _ in range(3):
        shop.tick()
        shop.do(FLUSH)
    shop.do(FULL)
    busy = shop.busy[0]
    assert busy > 2
    assert "the disk is busy" in shop.do(STEP)
    shop.tick()
    assert shop.busy[0] == pytest.approx(busy - 1)


def test_full_memory_makes_writers_wait_and_so_do_too_many_runs() -> None:
    shop = GameShop(SMALL, seed=1)
    for _ in range(5):
        shop.tick()
    assert shop.stalls == 1
    assert shop.waiting == 0
    assert "memory is full" in shop.log[-1].words
    stop = shop.table.rules.stop_trigger
    for _ in range(stop):
        shop.tick()
        shop.do(FLUSH)
    assert shop.runs == stop + 1
    before = shop.stalls
    shop.tick()
    shop.do(FLUSH)
    assert shop.stalls > before
    assert any(event.who == "writers wait" and "L0" in event.words for event in shop.log)


def test_moves_change_triggers_strategy_and_buckets() -> None:
    shop = GameShop(SMALL, seed=1)
    shop.tick()
    assert shop.do(DOUBLE) == "the disk is busy, or nothing is written yet"
    shop.do(FLUSH)
    assert [shop.do(move) for move in (LOWER, RAISE, RAISE)] == ["trigger 4", "trigger 5", "trigger 6"]
    assert shop.table.rules.trigger == shop.table.rules.level0_trigger == 6
    assert shop.do(STRATEGY) == "strategy leveled"
    assert shop.table.rules.leveled
    written = shop._written
    assert shop.do(DOUBLE).startswith("2 buckets")
    assert len(shop.table.buckets) == len(shop.busy) == 2
    assert shop._written > written
    for _ in range(4):
        shop.tick()
        shop.do(FLUSH)
    assert [bucket.levels.run_count for bucket in shop.table.buckets] == [5, 5]
    assert shop.do("sleep") == f"'sleep' is no move; one of {', '.join(MOVES)}"


def test_a_budget_untouched_gives_all_its_points_and_one_used_up_half() -> None:
    shop = GameShop(SMALL, seed=1)
    assert shop.tick().score == 4 * POINTS
    shop.stalls = SMALL.budgets.stalls
    assert shop.tick().score == round(3.5 * POINTS)
    shop.stalls = 10 * SMALL.budgets.stalls
    assert shop.tick().score == 3 * POINTS


def test_a_tick_is_quick() -> None:
    began = time.perf_counter()
    shop = played_by(KEEPER, STAGES[0], seed=7)
    assert (time.perf_counter() - began) / shop.stage.ticks < 0.3


@pytest.mark.parametrize("width", [1040, 860, 660, 324])
def test_the_picture_is_well_formed_and_stays_inside(width: int) -> None:
    heights = set()
    for ticks in (0, 3, 20):
        game = ShopGame(1, moves=[(3, "flush"), (4, "double"), (6, "flush")], ticks=ticks)
        figure = game.figure(width=width)
        tree = ElementTree.fromstring(f"<svg>{figure.body}</svg>")
        assert all(0 <= float(element.get("x", 0)) <= width for element in tree.iter("text"))
        heights.add(figure.height)
    assert len(heights) == 1


def test_the_model_names_budgets_ghosts_and_the_winner() -> None:
    model = game_model(game_of(winner(STAGES[2]), 3))
    assert model.won
    assert model.verdict.startswith("Won: every budget was kept.")
    assert model.verdict.endswith("ahead of universal and leveled. Stage 4 is next.")
    last = game_model(game_of(winner(STAGES[4]), 5))
    assert last.verdict.endswith("ahead of universal and leveled.")
    lost = game_model(game_of(nothing, 3))
    assert lost.verdict.startswith("Lost: over budget in reads")
    assert [player.name for player in lost.players] == ["you", "universal", "leveled"]
    assert "✕ " in game_figure(lost, width=1040).body


def test_the_view_plays_records_and_gives_the_same_again() -> None:
    game = ShopGame(2, seed=5)
    game.advance(4)
    game._on_verb(game, {"verb": "flush"}, [])
    assert game.now["log"][0] == [4, "you", "flushed 4,000 orders: 1 run"]
    assert game.now["refusals"]["flush"] == "no orders wait"
    game.advance(5)
    again = eval(game.code, {"widgets": __import__("widgets")})
    assert again.data() == game.data()
    assert again.moves == game.moves == ((4, "flush"),)
    game.stage = 3
    assert (game.tick, game.moves, game.shop.stage) == (0, (), STAGES[2])


def test_the_clock_runs_in_the_background_and_stops() -> None:
    game = ShopGame(1)
    game.pace, game.playing = 6, True
    deadline = time.monotonic() + 120
    while game.tick < 3 and time.monotonic() < deadline:
        time.sleep(0.02)
    game.playing = False
    game._jobs.wait(120)
    stopped = game.tick
    assert stopped >= 3
    game.playing = True
    game.restart()
    assert (game.tick, game.playing) == (0, False)


def test_what_is_no_stage_and_no_move_is_refused() -> None:
    for wrong in (0, 6, "one", None):
        with pytest.raises(ts.InvalidRequest, match="ShopGame takes a stage from 1 to 5"):
            ShopGame(wrong)
    with pytest.raises(ts.InvalidRequest, match="are no moves"):
        ShopGame(1, moves=[(1, "sleep")])
    with pytest.raises(ts.InvalidRequest, match="is no move"):
        ShopGame(1).move("sleep")
