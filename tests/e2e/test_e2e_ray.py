"""Sessions on a Ray cluster of two nodes, without faults."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing

import pytest

from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import session, submit, until, until_map, until_state
from ray_processes import environment, gateway_pid
from ray_stage import RAY, Stage, stage

pytestmark = [pytest.mark.anyio, pytest.mark.slow]

LOGS = """
subscription ($id: ID!, $rank: Int!, $offset: BigInt!) {
  session_logs(id: $id, rank: $rank, offset: $offset) { text at_end }
}
"""
DRAIN = "mutation ($id: ID!) { drain_agent(input: { id: $id, evict: true }) { __typename } }"
RESUME = "mutation ($id: ID!) { resume_agent(id: $id) { __typename } }"
CANCEL = "mutation ($id: ID!) { cancel_session(input: { id: $id }) { __typename } }"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def on(anyio_backend: str) -> AsyncIterator[Stage]:
    async with stage() as made:
        yield made


async def output(on: Stage, session_id: str, *, rank: int = 0, offset: int = 0) -> str:
    variables = {"id": session_id, "rank": rank, "offset": str(offset)}
    async with aclosing(on.client.subscribe(LOGS, variables)) as chunks:
        text = ""
        async for data in chunks:
            text += data["session_logs"]["text"]
            if data["session_logs"]["at_end"]:
                break
        return text


async def until_printed(on: Stage, session_id: str, word: str) -> None:
    async with aclosing(on.client.subscribe(LOGS, {"id": session_id, "rank": 0, "offset": "0"})) as chunks:
        async for data in chunks:
            if word in data["session_logs"]["text"]:
                return


async def test_the_cluster_query_shows_the_state_of_ray(on: Stage) -> None:
    told = await on.cluster_ray()
    assert told == {
        "head_node": on.ray.head,
        "connected": True,
        "version": told["version"],
        "workers": 2,
        "nodes": 3,
        "reason": None,
    }
    assert told["version"].startswith("2.")


async def test_output_can_be_followed_from_any_offset_during_and_after_the_session(on: Stage) -> None:
    go = on.ray.folder / "marks" / "log.go"
    script = f"echo one; while [ ! -e {go} ]; do sleep 0.02; done; echo two; exit 3"
    session_id = await submit(on.client, script, {"cuda.device": "1"})
    await until_state(on.client, session_id, "running")
    following = asyncio.create_task(output(on, session_id))
    go.touch()
    assert await following == "one\ntwo\n"
    assert (await until_state(on.client, session_id, "failed"))["exit_code"] == 3
    assert await output(on, session_id, offset=4) == "two\n"


async def test_a_long_output_is_read_completely(on: Stage) -> None:
    session_id = await submit(on.client, "seq 1 300000", {"cuda.device": "1"})
    assert await output(on, session_id) == "".join(f"{number}\n" for number in range(1, 300_001))


async def test_a_session_that_is_canceled_ends_and_gives_its_devices_back(on: Stage) -> None:
    session_id, number = await on.job("canceled")
    await on.client.execute(CANCEL, {"id": session_id})
    await until_state(on.client, session_id, "canceled")
    idle = {f"a11c0000-{number:04x}-4000-8000-{index:012x}": "0.00" for index in range(8)}
    await until_map(on.client, f"demo-{number}", idle)
    assert on.runs("canceled") == 1


async def test_an_evicted_session_gets_its_checkpoint_signal_and_continues_elsewhere(on: Stage) -> None:
    saved = on.ray.folder / "marks" / "saved"
    script = f"[ -e {saved} ] && exit 5; trap 'touch {saved}' USR1; echo ready; while :; do sleep 0.05; done"
    job = await submit(
        on.client, script, {"cuda.device": "1"}, checkpoint_signal="SIGUSR1", grace=2.0, preemptible=True
    )
    agent = (await until_state(on.client, job, "running"))["kernels"][0]["agent_id"]
    await until_printed(on, job, "ready")
    await on.client.execute(DRAIN, {"id": agent})
    ended = await until_state(on.client, job, "completed", "failed")
    assert (ended["exit_code"], ended["attempt"]) == (5, 2)
    assert ended["kernels"][0]["agent_id"] != agent
    await on.client.execute(RESUME, {"id": agent})


async def test_a_gang_of_sixteen_runs_on_both_nodes_each_rank_with_a_device_of_its_own(on: Stage) -> None:
    script = (
        'echo "{\\"rank\\": $RANK, \\"world\\": $WORLD_SIZE, \\"local\\": $LOCAL_RANK, \\"node\\": $NODE_RANK,'
        ' \\"at\\": \\"$MASTER_ADDR:$MASTER_PORT\\", \\"sees\\": \\"$CUDA_VISIBLE_DEVICES\\"}"'
    )
    session_id = await submit(on.client, script, {"cuda.device": "1"}, cluster_size=16)
    assert (await until_state(on.client, session_id, "completed", "failed"))["state"] == "completed"
    told = [json.loads(await output(on, session_id, rank=rank)) for rank in range(16)]
    assert [each["rank"] for each in told] == list(range(16))
    assert {each["world"] for each in told} == {16}
    assert {(each["node"], each["local"]) for each in told} == {(node, local) for node in (0, 1) for local in range(8)}
    assert len({each["sees"] for each in told}) == 16
    assert len({each["at"] for each in told}) == 1
    assert ":" not in told[0]["at"][-1:]


async def test_jobs_and_the_gateway_do_not_inherit_foreign_environment_variables(on: Stage) -> None:
    session_id = await submit(on.client, "env", {"cuda.device": "1"})
    await until_state(on.client, session_id, "completed")
    names = {line.partition("=")[0] for line in (await output(on, session_id)).splitlines()}
    assert "CUDA_VISIBLE_DEVICES" in names
    assert [name for name in names if name.startswith("RAY") or "TOKEN" in name] == []
    gateway = gateway_pid(on.server.pid)
    assert gateway is not None
    assert [name for name in environment(gateway) if name.startswith("ALIQUOT_")] == []


async def test_many_concurrent_sessions_all_run_once(on: Stage) -> None:
    mark = on.ray.folder / "marks" / "many"
    slots = {"cuda.shares": "0.1"}
    ids = await asyncio.gather(*(submit(on.client, f"echo x >> {mark}; exit 5", slots) for _ in range(60)))
    for session_id in ids:
        await until_state(on.client, session_id, "failed")
    assert {(await session(on.client, id))["exit_code"] for id in ids} == {5}
    assert len(mark.read_text().splitlines()) == 60


async def test_a_wrong_ray_token_is_shown_as_the_reason(on: Stage) -> None:
    wrong = on.ray.folder / "wrong-token"
    wrong.touch(mode=0o600)
    wrong.write_text("f" * 64)
    options = [str(wrong) if option == str(on.ray.token_file) else option for option in on.ray.server_options]
    async with OwnServer(*options) as server, server.client() as client:

        async def refused() -> bool:
            told = (await client.execute(RAY))["cluster"]["ray"]
            assert not told["connected"]
            return "token" in (told["reason"] or "")

        await until(refused)
