"""A node that is lost for good: an operator declares it, and its sessions are retried elsewhere."""

import signal

import pytest

from aliquot.cli.acceptance.checks import kill_mentioning
from aliquot.cli.acceptance.processes import OwnAgent
from aliquot.client import Refused
from e2e_operator import Operator
from e2e_sessions import session, until, until_map, until_state
from remote_cluster import Cluster, cluster

pytestmark = pytest.mark.anyio

SECOND_IDLE = {f"a11c0000-0002-4000-8000-{index:012x}": "0.00" for index in range(8)}


async def test_sessions_of_a_lost_agent_are_retried_elsewhere_once_an_operator_releases_it() -> None:
    async with cluster() as on:
        operator = Operator(on.client)
        await operator.policy(retries={"wait_first": 0.1})
        agent = await on.agent()
        await on.until_agent("alive")
        job = await on.job("job")
        with pytest.raises(Refused) as refused:
            await operator.change_agent("release_lost", agent.id)
        assert refused.value.code == "state_conflict"
        await agent.stop(signal.SIGKILL)
        kill_mentioning(str(agent.data_folder))
        await on.until_agent("lost")
        await second_agent(on)
        held = await session(on.client, job)
        assert (held["state"], held["holds_devices"], held["attempt"]) == ("running", True, 1)
        await operator.change_agent("release_lost", agent.id)
        await on.until_agent("left")

        async def runs_again() -> bool:
            seen = await session(on.client, job)
            return (seen["state"], seen["attempt"]) == ("running", 2)

        await until(runs_again)
        on.end_job("job")
        seen = await until_state(on.client, job, "completed", "failed")
        assert ([kernel["agent_id"] for kernel in seen["kernels"]], seen["exit_code"]) == (["demo-2"], 7)
        assert on.runs("job") == 2
        await until_map(on.client, "demo-2", SECOND_IDLE)


async def second_agent(on: Cluster) -> None:
    """Start a second, idle node."""
    agent = OwnAgent(on.server, "demo-2", "--demo-node", "2")
    on.agents.append(agent)
    await agent.start()
    await on.until_agent("alive", "demo-2")
