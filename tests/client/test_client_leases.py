"""GPUs held by hand: called for again while the block runs, and given back."""

import asyncio
from collections.abc import AsyncGenerator, Mapping
from typing import Any, ClassVar

import pytest

from aliquot.client import LeaseLost, ServerUnreachable
from aliquot.client.leases import Leases

pytestmark = pytest.mark.anyio

Step = dict[str, Any] | Exception
RELEASED: Step = {"release_gpus": {"__typename": "NotFound"}}


class Script(Leases):
    """Answers step by step; `done` is set once it was asked so often."""

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


def _held(session_id: str) -> dict[str, Any]:
    lists = {"gpu_ids": ["GPU-1"], "gpus": []}
    rest = {"job_id": "job", "session_id": session_id, "expires_at": None, "renewed": True, "revision": 1}
    return {"allocate_gpus": {"__typename": "GpusAllocated", **lists, **rest}}


async def test_it_is_called_for_again_over_a_server_that_is_away() -> None:
    script = Script(_held("ses_1"), ServerUnreachable("away"), _held("ses_1"))
    async with script.lease(shares=0.5, lease_s=0.04) as held:
        assert held.gpu_ids == ("GPU-1",)
        await script.done.wait()
    assert script.asked[:3] == ["allocate"] * 3
    assert script.asked[-1] == "release"


@pytest.mark.parametrize("step", [{"allocate_gpus": {"__typename": "NotPlaced", "message": "gone"}}, _held("ses_2")])
async def test_what_is_lost_is_told_at_the_end_of_the_block(step: Step) -> None:
    script = Script(_held("ses_1"), step)
    with pytest.raises(LeaseLost, match=r"gone|anew"):
        await _hold_until_done(script)
    assert script.asked[-1] == "release"


async def test_the_blocks_own_error_stands_before_it() -> None:
    script = Script(_held("ses_1"))
    with pytest.raises(ZeroDivisionError):
        async with script.lease(shares=0.5):
            raise ZeroDivisionError
    assert script.asked == ["allocate", "release"]


async def _hold_until_done(script: Script) -> None:
    async with script.lease(shares=0.5, lease_s=0.04):
        await script.done.wait()
