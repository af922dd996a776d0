"""The order of files and the processes they run on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.suite import schedule

TESTS = Path(__file__).parents[1]


def test_every_room_has_files_that_are_there() -> None:
    files = [path.relative_to(TESTS).as_posix() for path in TESTS.rglob("test_*.py")]
    for name, starts in schedule.ROOMS.items():
        for start in starts:
            assert any(file.startswith(start) for file in files), (name, start)


def test_cheap_files_come_first_then_rooms_then_the_others() -> None:
    seconds = {"a.py": 40.0, "b.py": 0.5, "c.py": 0.1, "d.py": 90.0, "lab/test_e.py": 60.0}
    seconds |= {"spark/test_f.py": 50.0, "spark/test_g.py": 20.0}
    assert schedule.ordered(seconds, seconds.__getitem__) == [
        *("c.py", "b.py"),
        *("spark/test_g.py", "spark/test_f.py", "lab/test_e.py"),
        *("d.py", "a.py"),
    ]


class Node:
    """A worker that notes which tests it is given."""

    shutting_down = False

    def __init__(self, name: str) -> None:
        self.gateway = type("Gateway", (), {"id": name})
        self.given: list[int] = []

    def send_runtest_some(self, indices: list[int]) -> None:
        self.given += indices

    def shutdown(self) -> None:
        self.shutting_down = True


def test_a_process_stays_in_its_room_and_opens_that_of_another_one_last(pytestconfig: pytest.Config) -> None:
    files = [
        "spark/test_a.py",
        "lab/test_b.py",
        "spark/test_c.py",
        "x.py",
        "lab/test_d.py",
        "spark/test_e.py",
    ]
    tests = [f"tests/{file}::test_{n}" for file in files for n in range(3)]
    scheduling = schedule.RoomScheduling(_with_two_nodes(pytestconfig), None)
    nodes = [Node("a"), Node("b")]
    for node in nodes:
        scheduling.add_node(node)
        scheduling.add_node_collection(node, tests)
    scheduling.schedule()
    order: dict[str, list[str]] = {"a": [], "b": []}
    while not scheduling.tests_finished:
        for node in nodes:
            if node.given:
                at = node.given.pop(0)
                order[node.gateway.id].append(schedule.below_tests(tests[at]))
                scheduling.mark_test_complete(node, at)
    files_of = {name: list(dict.fromkeys(done)) for name, done in order.items()}
    assert files_of == {
        "a": ["spark/test_a.py", "spark/test_c.py", "spark/test_e.py"],
        "b": ["lab/test_b.py", "lab/test_d.py", "x.py"],
    }


def test_a_worker_that_replaces_another_one_gets_to_run_a_last_single_test(
    pytestconfig: pytest.Config,
) -> None:
    """It runs a test once it knows the next one, or that there is none."""
    scheduling = schedule.RoomScheduling(_with_two_nodes(pytestconfig), None)
    first, second, late = Node("a"), Node("b"), Node("c")
    for node in (first, second):
        scheduling.add_node(node)
        scheduling.add_node_collection(node, ["tests/x.py::test_0", "tests/y.py::test_0"])
    scheduling.schedule()
    scheduling.mark_test_complete(second, second.given.pop())
    assert scheduling.remove_node(first) == "tests/x.py::test_0", "it crashed"
    scheduling.remove_node(second)
    scheduling.add_node(late)
    scheduling.add_node_collection(late, ["tests/x.py::test_0", "tests/y.py::test_0"])
    scheduling.schedule()
    assert (late.given, late.shutting_down) == ([0], True)


def _with_two_nodes(config: pytest.Config) -> pytest.Config:
    import copy

    changed = copy.copy(config)
    changed.option = copy.copy(config.option)
    changed.option.tx, changed.option.loadscopereorder = ["popen", "popen"], False
    return changed
