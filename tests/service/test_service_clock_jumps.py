"""A clock that jumps ahead: nothing expires before an operator could correct it."""

import logging
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from aliquot.clock import SystemClock
from aliquot.core.clock_correction import ClockCorrection
from aliquot.execution.result_store import FolderStorage
from aliquot.execution.workspace_store import StoredWorkspaces
from aliquot.service.accounts.workspaces import Workspaces
from aliquot.service.retention import EVERY_S, LEAP_S, PATIENCE_S, ClockJumps, Periods, RetentionLoop
from aliquot.service.state.state import State
from workspace_parts import RULES

DAY_S = 86_400.0


class Hands(SystemClock):
    """A settable wall clock and a monotonic clock that never goes back."""

    def __init__(self, wall_s: float = 1e9) -> None:
        self.wall_s = wall_s
        self.gone_s = 5.0
        super().__init__(
            wall_ns=lambda: round((self.wall_s + self.gone_s) * 1e9), monotonic_ns=lambda: round(self.gone_s * 1e9)
        )

    async def sleep(self, seconds: float) -> None:
        self.gone_s += seconds


def test_elapsed_time_and_small_clock_corrections_are_not_a_clock_jump() -> None:
    clock = Hands()
    jumps = ClockJumps(clock)
    for ahead_s in (0.0, 3600.0, -3600.0, 6 * DAY_S, -30 * DAY_S, 0.0):
        clock.gone_s += 40 * DAY_S
        clock.wall_s += ahead_s
        assert jumps.is_steady()


def test_a_clock_jump_is_logged_once_and_stops_retention_for_a_day(caplog: pytest.LogCaptureFixture) -> None:
    clock = Hands()
    jumps = ClockJumps(clock)
    clock.wall_s += 400 * DAY_S
    with caplog.at_level(logging.ERROR):
        for _ in range(23):
            assert not jumps.is_steady()
            clock.gone_s += 3600
        assert [record.getMessage()[:37] for record in caplog.records] == ["the clock jumped ahead by 400 days, s"]
    clock.gone_s += PATIENCE_S
    assert jumps.is_steady(), "no jump of the clock was reported"
    clock.wall_s += LEAP_S
    assert not jumps.is_steady()
    clock.wall_s -= LEAP_S
    assert jumps.is_steady(), "it was put right"


def test_records_dated_ahead_are_not_too_old_after_the_clock_is_corrected() -> None:
    clock = Hands()
    jumps = ClockJumps(clock)
    clock.wall_s += 400 * DAY_S
    assert not jumps.is_steady()
    clock.correct(clock.wall_us())
    dated_us = clock.now_us()
    clock.wall_s -= 400 * DAY_S
    assert jumps.is_steady()
    assert (clock.now_us() - clock.wall_us()) // 1_000_000 == 400 * DAY_S, "it goes back by a correction alone"

    again = Hands()
    again.not_before(dated_us)
    assert ClockJumps(again, known_us=dated_us).is_steady()
    assert again.wall_us() < dated_us - 399 * DAY_S * 1e6, "it is by this one that things are too old"


@pytest.mark.parametrize(("known_s", "is_steady"), [(0, True), (1e9 - 3 * DAY_S, True), (1e9 - 300 * DAY_S, False)])
def test_a_server_started_with_a_clock_far_ahead_of_its_log_detects_a_clock_jump(
    known_s: float, is_steady: bool
) -> None:
    assert ClockJumps(Hands(1e9), known_us=round(known_s * 1e6)).is_steady() is is_steady


@pytest.mark.parametrize(
    ("days", "passed_s", "is_measured", "is_steady"),
    [
        (400, 60, True, False),
        (400, PATIENCE_S, True, True),
        (6, 60, True, True),
        (-400, 60, True, True),
        (-400, 60, False, True),
    ],
)
def test_a_new_leader_after_a_clock_jump_waits_for_the_rest_of_the_day(
    days: int, passed_s: float, is_measured: bool, is_steady: bool
) -> None:
    clock = Hands()
    to_us = clock.wall_us() - round(passed_s * 1e6)
    leap = ClockCorrection(from_us=to_us - round(days * DAY_S * 1e6), to_us=to_us, is_measured=is_measured)
    jumps = ClockJumps(clock, known_us=to_us, correction=leap)
    assert jumps.is_steady() is is_steady
    clock.gone_s += PATIENCE_S - passed_s
    assert jumps.is_steady()


def test_a_new_leader_after_a_clock_jump_continues_once_the_clock_is_corrected() -> None:
    clock = Hands()
    clock.wall_s += 400 * DAY_S
    to_us = clock.wall_us()
    leap = ClockCorrection(from_us=to_us - round(400 * DAY_S * 1e6), to_us=to_us, is_measured=True)
    jumps = ClockJumps(clock, known_us=to_us, correction=leap)
    assert not jumps.is_steady()
    clock.wall_s -= 400 * DAY_S
    assert jumps.is_steady()


async def wait_hours(clock: Hands, run: Callable[[], Awaitable[None]], *, hours: int) -> None:
    """Run a loop for this long, and stop it."""

    async def sleep(seconds: float) -> None:
        if clock.gone_s > 3600 * hours:
            raise EndOfTest
        clock.gone_s += seconds

    clock.sleep = sleep  # type: ignore[method-assign]  # until then
    with pytest.raises(EndOfTest):
        await run()


class EndOfTest(BaseException):
    pass


@pytest.mark.anyio
async def test_retention_runs_again_a_day_after_a_clock_jump() -> None:
    clock, looked = Hands(), list[float]()

    class Looking(RetentionLoop):
        async def run_once(self) -> None:  # type: ignore[override]  # only when is of interest
            looked.append(clock.gone_s)

    retaining = Looking(None, memory=State(), clock=clock, periods=Periods())  # type: ignore[arg-type]  # not asked
    clock.wall_s += 1000 * DAY_S
    await wait_hours(clock, retaining.run, hours=30)
    assert looked[0] >= PATIENCE_S
    assert looked[1] == looked[0] + EVERY_S


@pytest.mark.anyio
async def test_uploads_are_deleted_again_a_day_after_a_clock_jump(tmp_path: Path) -> None:
    clock, looked = Hands(), list[float]()

    class Looking(StoredWorkspaces):
        def expire(self, kept_s: float, **_: Any) -> int:
            looked.append(clock.gone_s)
            return 0

    uploads = Workspaces(
        state=State(),
        journal=None,  # type: ignore[arg-type]  # not asked
        clock=clock,
        store=Looking(FolderStorage(tmp_path)),
        rules=RULES,
    )
    jumps = ClockJumps(clock)
    clock.wall_s += 1000 * DAY_S
    await wait_hours(clock, partial(uploads.run, jumps), hours=30)
    assert looked[0] >= PATIENCE_S
