"""What every test may ask for: seeds that are printed, `--rewrite` for text cases, honest skips.

A skip whose reason starts with "needs " means that a peer or a tool is missing on this machine. That is
fine at home; with WORKBENCH_CI=1, where everything must be present, such a skip is a failure.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import signal
import tempfile
from collections import Counter
from collections.abc import Iterator
from multiprocessing import util
from typing import Any

import hypothesis
import pytest

from tests import browsing
from tests.servers import mariadb as mariadb_servers
from tests.servers.mariadb import MariaDb

IN_CI = os.environ.get("WORKBENCH_CI") == "1"
hypothesis.settings.register_profile(
    "workbench",
    deadline=None,
    derandomize=IN_CI,  # there the same examples for all, as with the seeds
    print_blob=True,
    suppress_health_check=[hypothesis.HealthCheck.too_slow, hypothesis.HealthCheck.function_scoped_fixture],
)
hypothesis.settings.load_profile("workbench")

MISSING = "needs "
LATE = "Python worker failed to connect back"
CI_SEED = 54_963
LONGEST = ("demo", "spark", "bench", "servers", "lab", "crash", "peers", "hostile", "cli", "model")
LONGEST += ("notebooks", "test_wheel.py", "table", "test_layers.py", "test_types.py")
"""Folders (and files) that take long, longest first, so that processes end together on small files."""
SLOW = (
    "demo/test_demo.py",
    "demo/test_demo_database.py",
    "bench/test_bench.py",
    "spark/test_kill.py",
    "spark/test_stream_changes.py",
)
SLOW += (
    "spark/test_counting.py",
    "spark/test_ingest.py",
    "spark/test_ingest_modes.py",
    "servers/test_hive.py",
)
SLOW += ("servers/test_races.py", "servers/test_spark_s3.py", "crash/test_crash.py")
SLOW += (
    "hostile/test_damage.py",
    "lab/test_notebooks.py",
    "lab/test_bench_widgets.py",
    "lab/test_kit.py",
    "lab/test_xss.py",
)
SLOW += ("peers/test_merge_matrix.py", "peers/test_interleaved.py", "peers/test_golden_goes_on.py")
SLOW += ("peers/test_bucket_modes.py", "peers/test_compactions.py")
SLOW += ("peers/test_flink_sql.py", "peers/test_sql_scripts.py")
SLOW += ("model/test_machine.py", "cli/test_environment_setup.py", "campaign/test_campaign.py")
SLOW += ("test_types.py", "test_wheel.py")
"""Files that `--quick` leaves out; what they prove in full, others of their folder prove in part."""


@pytest.fixture(scope="session")
def mariadb() -> Iterator[MariaDb]:
    """One server for all tests of a run; a test makes databases of its own in it."""
    with mariadb_servers.mariadb() as server:
        yield server


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("workbench")
    rounds = "seeds a run for the seeded tests (default 5, with --quick 1)"
    group.addoption("--rounds", type=int, default=None, help=rounds)
    group.addoption(
        "--quick", action="store_true", help="each test once, by its first parameters; no slow ones"
    )
    group.addoption("--seed", type=int, default=None, help="first seed; repeats the run that printed it")
    group.addoption("--rewrite", action="store_true", help="write what text cases give below their ----")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.rounds is None:
        config.option.rounds = 1 if config.option.quick else 5
    if config.option.seed is None:  # in CI the same for all, so that what fails there is the change's doing
        config.option.seed = CI_SEED if IN_CI else random.SystemRandom().randrange(1_000_000)
    if not hasattr(config, "workerinput"):  # not a second process of ours, which inherits all this
        set_aside(config)


def set_aside(config: pytest.Config) -> None:
    """Temporary files of whatever tests start go into one folder, which ends with the run; a run that is
    terminated ends as with Ctrl-C: servers, JVMs and browsers with it.
    """
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", tempfile.gettempdir())  # what failed tests leave stays
    folder = tempfile.mkdtemp(prefix="workbench-tests-")
    os.chmod(folder, 0o711)  # PostgreSQL, as another user, has its own in it
    last = -1000  # after multiprocessing has removed what it keeps in it
    util.Finalize(None, shutil.rmtree, (folder,), {"ignore_errors": True}, exitpriority=last)
    os.environ["TMPDIR"] = tempfile.tempdir = folder
    os.environ.setdefault("PYSPARK_SUBMIT_ARGS", spark_options(folder))
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # or each of hundreds of processes compiles all sources


def spark_options(folder: str) -> str:
    """A session of a test lives for seconds: a JVM's second compiler takes more of them than it saves. Python
    and the JVM wait minutes for each other, not 15 s: the machine is busy."""
    java = f"defaultJavaOptions=-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={folder}"
    settings = [f"spark.{side}.{java}" for side in ("driver", "executor")]
    settings.append("spark.python.authenticate.socketTimeout=240s")
    return " ".join([*(f"--conf {shlex.quote(each)}" for each in settings), "pyspark-shell"])


def pytest_report_header(config: pytest.Config) -> str:
    return f"seeds: --seed {config.option.seed} --rounds {config.option.rounds}"


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    spent = Counter[str]()
    for report in (each for reports in terminalreporter.stats.values() for each in reports):
        if isinstance(report, pytest.TestReport):
            folder, _, rest = report.nodeid.removeprefix("tests/").partition("/")
            spent[folder if rest else "files of none"] += report.duration
    if len(spent) > 1:
        terminalreporter.section("seconds of the tests by folder")
        terminalreporter.line(" · ".join(f"{folder} {round(each)}" for folder, each in spent.most_common()))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The longest files first, otherwise as collected; with `--quick` each test once, without slow ones."""
    if config.option.quick:
        kept, left_out = quickest(items)
        config.hook.pytest_deselected(items=left_out)
        items[:] = kept
    rank = {config.rootpath / "tests" / folder: at for at, folder in enumerate(LONGEST)}
    places = [(item.path, *item.path.parents) for item in items]
    ranks = [min((rank[up] for up in each if up in rank), default=len(rank)) for each in places]
    items[:] = [items[at] for at in sorted(range(len(items)), key=ranks.__getitem__)]


def quickest(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """(what `--quick` runs, the rest): the first of each parametrized test, no slow file."""
    known, kept, left_out = set[tuple[object, str]](), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        test = item.parent, getattr(item, "originalname", item.name)
        slow = item.path in {item.config.rootpath / "tests" / file for file in SLOW}
        runs = test not in known and not slow
        known.add(test)
        (kept if runs else left_out).append(item)
    return kept, left_out


@pytest.fixture
def seeds(request: pytest.FixtureRequest) -> tuple[int, ...]:
    """`--rounds` seeds from `--seed` on; printed, so a failure shows what repeats it."""
    first, rounds = request.config.option.seed, request.config.option.rounds
    print(f"seeds {first}..{first + rounds - 1}: repeat with --seed {first} --rounds {rounds}")
    return tuple(range(first, first + rounds))


@pytest.fixture
def rewrite(request: pytest.FixtureRequest) -> bool:
    """Whether text cases are to be written anew instead of compared."""
    return bool(request.config.option.rewrite)


@pytest.fixture
def browser() -> object:
    """A headless Chromium, shared by all browser tests in a row."""
    return browsing.browser()


def pytest_runtest_protocol(item: pytest.Item, nextitem: pytest.Item | None) -> bool | None:
    """Tests with Spark run once more if it gave up on a Python worker: it waits 10 s, which on a busy machine
    may be too short, and lets nobody choose. Any other failure stands.
    """
    if item.get_closest_marker("spark") is None:
        return None
    item.ihook.pytest_runtest_logstart(nodeid=item.nodeid, location=item.location)
    protocol = item.config.pluginmanager.get_plugin("runner").runtestprotocol
    reports = protocol(item, nextitem=nextitem, log=False)
    if any(report.failed and LATE in report.longreprtext for report in reports):
        item._initrequest()  # fixtures of the test are made anew
        reports = protocol(item, nextitem=nextitem, log=False)
        reports[-1].sections.append(("Spark", f"{LATE}: run again"))
    for report in reports:
        item.ihook.pytest_runtest_logreport(report=report)
    item.ihook.pytest_runtest_logfinish(nodeid=item.nodeid, location=item.location)
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> object:
    result = yield
    browsing.close_before(nextitem)
    return result


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> object:
    report = yield
    return fail_if_missing(report)


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector) -> object:
    report = yield
    return fail_if_missing(report)


def fail_if_missing(report: pytest.TestReport | pytest.CollectReport) -> object:
    """In CI a skip for something missing becomes a failure; an expected failure stays what it is."""
    if not report.skipped or hasattr(report, "wasxfail") or os.environ.get("WORKBENCH_CI") != "1":
        return report
    reason = skip_reason(report.longrepr)
    if reason.startswith(MISSING):
        report.outcome = "failed"
        report.longrepr = f"must not be skipped with WORKBENCH_CI=1: {reason}"
    return report


def skip_reason(longrepr: object) -> str:
    text = longrepr[2] if isinstance(longrepr, tuple) else str(longrepr)
    return str(text).removeprefix("Skipped: ")


@pytest.fixture(scope="session")
def spark() -> Iterator[Any]:
    """The Spark session of this process, started by the first test that wants one; nobody else stops it."""
    from tablestore.core.errors import InvalidRequest, NotFound
    from tablestore.spark import session

    try:
        made = session("tests", cores=2, memory="512m")
    except (NotFound, InvalidRequest) as e:
        pytest.skip(f"needs Java: {e}")
    yield made
    made.stop()
