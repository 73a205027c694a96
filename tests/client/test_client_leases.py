"""GPU leases: renewed while the block runs, and released."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from aliquot.client import GraphQLFault, LeaseLost, ServerUnreachable, UnexpectedAnswer, leases
from aliquot.client.leases import Leases
from aliquot_schema.errors import Unauthenticated

pytestmark = pytest.mark.anyio

Step = dict[str, Any] | Exception
LEASE_S = 0.04
RELEASED: Step = {"release_gpus": {"__typename": "NotFound"}}


class Script(Leases):
    """Answers by script; `done` is set after the last step."""

    _fragments: ClassVar = {"AllocateGpusResult": "id", "ReleaseGpusResult": "id"}

    def __init__(self, *steps: Step) -> None:
        self._steps = list(steps)
        self.asked: list[str] = []
        self.done = asyncio.Event()

    async def execute(self, query: str, variables: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.asked.append("release" if "release_gpus" in query else "allocate")
        step = RELEASED if self.asked[-1] == "release" else self._steps.pop(0) if self._steps else _held("ses_1")
        if not self._steps:
            self.done.set()
        if isinstance(step, Exception):
            raise step
        return step

    def subscribe(self, query: str, variables: Mapping[str, Any] | None = None) -> AsyncGenerator[dict[str, Any], None]:
        raise AssertionError("a lease follows nothing")


@dataclass
class Hands:
    """A clock set by the test, however slow the machine is."""

    now: float = 0.0

    def monotonic(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Hands:
    """Leases expire by it; pacing uses the real clock."""
    hands = Hands()
    monkeypatch.setattr(leases, "time", hands)
    return hands


def _held(session_id: str) -> dict[str, Any]:
    lists = {"gpu_ids": ["GPU-1"], "gpus": []}
    rest = {"job_id": "job", "session_id": session_id, "expires_at": None, "renewed": True, "revision": 1}
    return {"allocate_gpus": {"__typename": "GpusAllocated", **lists, **rest}}


async def test_a_lease_is_renewed_after_the_server_was_unreachable() -> None:
    script = Script(_held("ses_1"), ServerUnreachable("away"), _held("ses_1"))
    async with script.lease(shares=0.5, lease_s=LEASE_S) as held:
        assert held.gpu_ids == ("GPU-1",)
        await script.done.wait()
    assert script.asked[:3] == ["allocate"] * 3
    assert script.asked[-1] == "release"


@pytest.mark.parametrize("kind", ["RateLimited", "QuotaExceeded"])
async def test_a_temporary_refusal_does_not_end_a_lease(kind: str) -> None:
    refusal = {"allocate_gpus": {"__typename": kind, "message": "later"}}
    script = Script(_held("ses_1"), refusal, UnexpectedAnswer(502, "proxy"), GraphQLFault([{"message": "busy"}]))
    async with script.lease(shares=0.5, lease_s=LEASE_S):
        await script.done.wait()
    assert script.asked[-1] == "release"


@pytest.mark.parametrize(("passed_s", "is_lost"), [(LEASE_S, False), (LEASE_S + 0.001, True)])
async def test_a_lease_is_lost_when_renewal_fails_for_longer_than_its_duration(
    clock: Hands, passed_s: float, is_lost: bool
) -> None:
    script = Script(_held("ses_1"), Unauthenticated("revoked"))
    with pytest.raises(LeaseLost, match="revoked") if is_lost else nullcontext():
        async with script.lease(shares=0.5, lease_s=LEASE_S):
            await asyncio.sleep(0)  # renewing starts here
            clock.now = passed_s
            await script.done.wait()


@pytest.mark.parametrize("step", [{"allocate_gpus": {"__typename": "NotPlaced", "message": "gone"}}, _held("ses_2")])
async def test_a_lost_lease_raises_an_error_at_the_end_of_the_block(step: Step) -> None:
    script = Script(_held("ses_1"), step)
    with pytest.raises(LeaseLost, match=r"^job(: gone| expired, and was allocated again: .*)$"):
        await _hold_until_done(script)
    assert script.asked[-1] == "release"


async def test_a_lease_whose_time_limit_is_over_is_lost_and_not_asked_for_again(clock: Hands) -> None:
    script = Script(_held("ses_1"))
    with pytest.raises(LeaseLost, match="job: its time limit is over"):
        await _hold_until_over(script, clock)
    assert script.asked == ["allocate", "release"]


async def test_an_error_in_the_lease_block_is_raised_and_the_lease_is_released() -> None:
    script = Script(_held("ses_1"))
    with pytest.raises(ZeroDivisionError):
        async with script.lease(shares=0.5):
            raise ZeroDivisionError
    assert script.asked == ["allocate", "release"]


async def _hold_until_done(script: Script) -> None:
    async with script.lease(shares=0.5, lease_s=LEASE_S):
        await script.done.wait()


async def _hold_until_over(script: Script, clock: Hands) -> None:
    async with script.lease(shares=0.5, lease_s=0.0, time_limit_s=60.0):
        clock.now = 60.0
        for _ in range(5):
            await asyncio.sleep(0)
