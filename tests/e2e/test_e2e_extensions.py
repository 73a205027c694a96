"""An extended time limit with real processes: it reaches the job, and survives a restart."""

import time

import pytest
from anyio import sleep

from aliquot.cli.acceptance.processes import OwnServer
from aliquot.client.errors import Refused
from aliquot.client.generated.inputs import ChangeSessionInput
from e2e_sessions import session, submit, until_state

pytestmark = pytest.mark.anyio

LIMIT_S = 12


async def test_an_extended_time_limit_reaches_the_job_and_survives_the_server(demo: OwnServer) -> None:
    async with demo.client() as client:
        name = await submit(client, "sleep 600", {"cuda.device": "1"}, time_limit=LIMIT_S)
        await until_state(client, name, "running")
        began = time.monotonic()
        longer = await client.extend_session(ChangeSessionInput(id=name), seconds=600)
        assert longer.session.time_limit == LIMIT_S + 600
    await demo.kill()
    await demo.start()
    async with demo.client() as client:
        await sleep(max(0.0, began + LIMIT_S + 1 - time.monotonic()))
        assert (await session(client, name))["state"] == "running"
        again = await client.extend_session(ChangeSessionInput(id=name), seconds=60)
        assert again.session.time_limit == LIMIT_S + 660
        waiting = await submit(client, "true", {"cuda.device": "1"}, held=True)
        with pytest.raises(Refused, match="only a running session"):
            await client.extend_session(ChangeSessionInput(id=waiting), seconds=60)
