"""What job arrays and ranks that did not start do not have: results, terminals, ports and statistics."""

from typing import Any

import pytest

from aliquot.service.history.history import History
from aliquot.service.lifecycle.launch_orders import AppTokens
from aliquot.service.sessions.files import SessionFiles
from aliquot.service.sessions.streams import SessionStreams
from aliquot_schema.cluster.streams import StreamTarget
from aliquot_schema.errors import NotFound
from aliquot_schema.ids import AgentId, KernelId
from aliquot_schema.requests import NewSession
from service_bench import agent
from service_stage import CALLER, stage

pytestmark = pytest.mark.anyio


class NoStreams:
    """Nothing is to be opened."""

    async def open_stream(self, agent_id: AgentId, kernel_id: KernelId, target: Any) -> Any:
        raise AssertionError(f"{agent_id} was asked for {kernel_id} and {target}")


async def test_what_only_tasks_have_is_refused_for_their_array_with_the_name_of_a_task() -> None:
    async with stage([agent("a", devices=2)]) as on:
        wanted = NewSession(argv=("true",), shell=None, slots=[("cuda.device", "1")], array="0-1")
        array = (await on.sessions.create_session(CALLER, wanted)).session.id
        await on.advance()
        parts: dict[str, Any] = {"state": on.state, "journal": on.journal, "clock": on.clock, "source": NoStreams()}
        files = SessionFiles(**parts, store=on.store, copies=None)
        streams = SessionStreams(**parts, records_terminals=False, app_tokens=AppTokens(b"token"))
        history = History(state=on.state, queries=on.queries, clock=on.clock)
        says = f"{array} is a job array: name one of its tasks, like {array}_INDEX"
        with pytest.raises(NotFound, match=says):
            await files.listing(CALLER, array, rank=0)
        with pytest.raises(NotFound, match=says):
            await streams.open(CALLER, array, rank=0, target=StreamTarget(port=8000))
        with pytest.raises(NotFound, match=says):
            await history.session_stats(CALLER, array)


async def test_a_rank_without_which_a_gang_began_has_no_files_and_no_terminal_and_the_message_says_why() -> None:
    async with stage([agent("a", devices=1)]) as on:
        gang = await on.submit(kernels=3, cluster_size_min=1)
        await on.advance()
        assert on.live() == [f"{gang}.1.0"]
        parts: dict[str, Any] = {"state": on.state, "journal": on.journal, "clock": on.clock, "source": NoStreams()}
        files = SessionFiles(**parts, store=on.store, copies=None)
        streams = SessionStreams(**parts, records_terminals=False, app_tokens=AppTokens(b"token"))
        says = f"{gang} began with 1 of its 3 kernels, without rank 2"
        with pytest.raises(NotFound, match=says):
            await files.listing(CALLER, gang, rank=2)
        with pytest.raises(NotFound, match=says):
            await streams.open(CALLER, gang, rank=2, target=StreamTarget(port=8000))
