"""Acknowledged ends: agents do not report them again after a restart; outputs stay readable."""

from pathlib import Path

import pytest

from e2e_sessions import output_of, submit, until, until_state
from remote_cluster import cluster

pytestmark = pytest.mark.anyio


def forgotten(folder: Path) -> list[bool]:
    return [(kernel / "forgotten").exists() for kernel in sorted((folder / "kernels").iterdir())]


async def test_ended_kernels_are_forgotten_and_their_outputs_are_not() -> None:
    async with cluster() as on:
        agent = await on.agent()
        await on.until_agent("alive")
        sessions = [await submit(on.client, f"echo this is {number}", {"cuda.device": "1"}) for number in range(4)]
        for session_id in sessions:
            await until_state(on.client, session_id, "completed")

        async def all_are() -> bool:
            return forgotten(agent.folder) == [True] * 4

        await until(all_are)
        running = await on.job("job")
        await agent.stop()
        await agent.start()
        await on.until_log(agent, "is connected to")
        printed = [await output_of(on.client, session_id) for session_id in sessions]
        assert printed == [f"this is {n}\n" for n in range(4)]
        assert sorted(forgotten(agent.folder)) == [False, True, True, True, True]
        on.end_job("job")
        assert (await on.ended(running))["exit_code"] == 7
