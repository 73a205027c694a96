"""kill -9 of the server: jobs continue, are adopted, and end with their own exit code."""

import pytest

from aliquot.cli.acceptance.checks import MapCheck, live_kernels
from aliquot.cli.acceptance.cluster_view import read_cluster
from aliquot.cli.acceptance.processes import OwnServer
from e2e_sessions import submit, until, until_state

pytestmark = pytest.mark.anyio

EXIT_CODES = (0, 3, 7, 0, 255)
WAIT_AND_EXIT = 'while [ ! -e "{flag}" ]; do sleep 0.05; done; exit {code}'


async def test_sessions_survive_a_kill_of_the_server(demo: OwnServer) -> None:
    flag = demo.folder / "go-on"
    async with demo.client() as client:
        ids = [
            await submit(client, WAIT_AND_EXIT.format(flag=flag, code=code), {"cuda.device": "2"})
            for code in EXIT_CODES
        ]
        for session_id in ids:
            await until_state(client, session_id, "running")
    before = own(demo)
    assert len(before) == len(ids)
    await demo.kill()
    assert own(demo) == before
    await demo.start()
    async with demo.client() as client:
        for session_id in ids:
            assert (await until_state(client, session_id, "running"))["attempt"] == 1
        check = MapCheck(client=client, data_folder=demo.data_folder)
        await check.compare()
        assert check.differences == []
        assert check.from_processes_alone == 1
        assert own(demo) == before
        flag.touch()
        for session_id, code in zip(ids, EXIT_CODES, strict=True):
            ended = await until_state(client, session_id, "completed", "failed")
            assert (ended["exit_code"], ended["attempt"]) == (code, 1)

        async def is_idle() -> bool:
            return (await read_cluster(client)).is_idle

        await until(is_idle)
    assert own(demo) == {}


def own(server: OwnServer) -> dict[str, int]:
    """Pids by kernel."""
    return {name: live.pid for name, live in live_kernels(server.data_folder).items()}
