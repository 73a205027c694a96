"""A pytest plug-in: runs each suite (a folder under tests/) in one process, and prints what each took.

Loaded by scripts/test, which runs the tests in four processes (pytest-xdist). The longest suite starts first. Suites
with servers wait half of their time, so three of them run side by side on two cores. The fourth process has a low
priority: it runs suites that drive no processes in the time that the others leave, and they help it at the end.

The summary marks the suites that took longer than planned. That fails nothing: the same suite takes twice as long on a
slow machine (server/decisions/0108).

A failed test of a suite that drives real processes runs once more, a few times per run: on two busy cores, a browser or
a process now and then misses a deadline that says nothing about the product. The summary counts these as reruns and
shows what failed (server/decisions/0099).

The garbage collector leaves out what collecting the tests has left in memory, a million objects: to examine them over
and over took a seventh of the time of tests that only compute.
"""

import gc
import os
from collections import Counter
from collections.abc import Mapping
from typing import Any, Final

import pytest
from typing_extensions import override
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling
from xdist.workermanage import WorkerController

PLANNED_S: Final = {
    "core": 1200,
    "schema": 30,
    "service": 240,
    "ledger": 1600,
    "store": 300,
    "execution": 340,
    "api": 350,
    "client": 50,
    "cli": 110,
    "containers": 600,
    "e2e": 2100,
    "readme": 50,
    "docs": 330,
    "rest": 90,
    "architecture": 80,
    "benchmarks": 80,
    "browser": 1000,
    "simulation": 900,
    "load": 200,
    "docker": 180,
    "release": 150,
    "authorisation": 100,
    "attacks": 420,
    "mutation": 20,
}
"""Seconds, added up over a suite's tests."""
PLANNED_S_OTHERS: Final = 60
"""For each suite that is not named above."""

FIRST: Final = (
    "e2e",
    "api",
    "store",
    "execution",
    "browser",
    "attacks",
    "docs",
    "docker",
    "release",
)
"""The longest suite, and beside it those with few processes; the browser's when the longest has ended, so that no
process is left with it at the end. The others follow in the order in which they were collected."""
LAST: Final = ("load",)
"""Suites that start many processes, which would slow down the first one if they ran beside it."""

PATIENT: Final = ("ledger", "simulation", "service", "core", "schema", "authorisation", "architecture")
"""Suites in which no test minds how slow it is: they compute, or wait for a database only. They run in parts, a folder
each."""
PATIENT_S_MAX: Final = 1500
"""What a test of them may take with what is left over of a processor, seconds."""
PROCESSES_MIN: Final = 3
"""With as many processes, the last one has a low priority."""
NICE: Final = 10
"""Beside two busy processes, a tenth of a processor is left to it: enough for a test with a time limit of its own."""

RERUN: Final = frozenset(
    {"attacks", "browser", "cli", "containers", "demo", "docker", "docs", "e2e", "execution", "load", "release"}
)
"""Suites with real processes."""
RERUNS_MAX: Final = 4
"""Per process of the tests. More failures than that have a cause."""

_reruns: list[pytest.TestReport] = []
_told_s: Counter[str] = Counter()


class SuiteScheduling(LoadScopeScheduling):
    """Gives a process that has no more tests the next whole suite."""

    @override
    def _split_scope(self, nodeid: str) -> str:
        suite = _suite_of(nodeid)
        return nodeid.partition("::")[0].rpartition("/")[0] if suite in PATIENT else suite

    @override
    def _assign_work_unit(self, node: WorkerController) -> None:
        """Give a process of low priority nothing but patient suites."""
        if _is_low(node.workerinput):
            part = next((scope for scope in self.workqueue if "/" in scope), None)
            if part is None:
                node.shutdown()
                return
            self.workqueue.move_to_end(part, last=False)
        super()._assign_work_unit(node)

    @override
    def remove_node(self, node: WorkerController) -> str | None:
        """What ended its process is not tried again by the next one, which it would end as well."""
        crashed = super().remove_node(node)
        for name, tests in list(self.workqueue.items()):
            if crashed in tests:
                tests[crashed] = True
                if all(tests.values()):
                    del self.workqueue[name]
        return crashed


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SuiteScheduling:
    """Distribute suites, in the order of the tests."""
    config.option.loadscopereorder = False
    return SuiteScheduling(config, log)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Sort the suites."""
    items.sort(key=_rank)
    for item in items:
        if _suite(item) in RERUN:
            item.add_marker(pytest.mark.flaky(reruns=1, condition=_may_rerun))
        if _suite(item) in PATIENT:
            item.add_marker(pytest.mark.timeout(PATIENT_S_MAX))


def pytest_configure() -> None:
    """Switch the garbage collector off while tests are collected."""
    gc.disable()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Exempt what exists from the garbage collector, and give this process a low priority, if it is the one."""
    gc.freeze()
    gc.enable()
    if _is_low(getattr(session.config, "workerinput", {})):
        os.nice(NICE)


def _is_low(worker: Mapping[str, Any]) -> bool:
    count = worker.get("workercount", 1)
    return count >= PROCESSES_MIN and worker["workerid"] == f"gw{count - 1}"


def _may_rerun() -> bool:
    return len(_reruns) < RERUNS_MAX


def _rank(item: pytest.Item) -> int:
    suite = _suite(item)
    if suite in FIRST:
        return FIRST.index(suite) - len(FIRST)
    return (*LAST, *PATIENT).index(suite) + 1 if suite in (*LAST, *PATIENT) else 0


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Add up the times of all processes."""
    _told_s[_suite_of(report.nodeid)] += report.duration
    if report.outcome == "rerun":
        _reruns.append(report)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print what each suite took, and what failed at first."""
    for report in _reruns:
        terminalreporter.section(f"failed at first: {report.nodeid}")
        terminalreporter.line(str(report.longrepr))
    terminalreporter.section("time by suite")
    for suite, spent in _told_s.most_common():
        planned = PLANNED_S.get(suite, PLANNED_S_OTHERS)
        terminalreporter.line(f"{suite:<14}{spent:8.1f} s of {planned}{'  longer than planned' * (spent > planned)}")


def _suite(item: pytest.Item) -> str:
    return _suite_of(item.nodeid)


def _suite_of(test: str) -> str:
    parts = test.partition("::")[0].split("/")
    return parts[1] if len(parts) > 2 else parts[0]
