"""A gang over two remote agents: its ranks connect as their variables say."""

import json
import os
import sys
from typing import Final

import pytest

from aliquot.cli.acceptance.processes import OwnAgent
from e2e_sessions import output_of, submit, until_state
from remote_cluster import cluster

pytestmark = pytest.mark.anyio

AS_ANYBODY: Final = ("--job-user", "root", "--allow-root-jobs") if os.geteuid() == 0 else ()
NAMES: Final = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "NODE_RANK", "MASTER_ADDR", "MASTER_PORT")
MEET: Final = f"""
import json, os, socket, time
own = {{name: os.environ[name] for name in {NAMES!r}}} | {{"agent": os.environ["ALIQUOT_AGENT_ID"]}}
place = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if own["RANK"] == "0":
    with socket.create_server(("", place[1]), reuse_port=False) as server:
        peer, _ = server.accept()
        theirs = json.loads(peer.makefile().readline())
        peer.sendall(json.dumps(own).encode() + b"\\n")
else:
    while True:
        try:
            peer = socket.create_connection(place, timeout=30)
            break
        except ConnectionRefusedError:
            time.sleep(0.05)
    peer.sendall(json.dumps(own).encode() + b"\\n")
    theirs = json.loads(peer.makefile().readline())
print(json.dumps([own, theirs]))
"""


async def test_two_ranks_on_two_agents_connect_to_each_other() -> None:
    async with cluster() as on:
        for number in (1, 2):
            agent = OwnAgent(on.server, f"demo-{number}", "--demo-node", str(number), *AS_ANYBODY)
            on.agents.append(agent)
            await agent.start()
            await on.until_agent("alive", f"demo-{number}")
        program = on.server.folder / "meet.py"
        program.write_text(MEET)
        shell = f"exec {sys.executable} {program}"
        gangs = [await submit(on.client, shell, {"cuda.device": "5"}, cluster_size=2) for _ in range(2)]
        for session_id in gangs:
            ended = await until_state(on.client, session_id, "completed", "failed")
            assert ended["state"] == "completed", ended
            own, theirs = json.loads(await output_of(on.client, session_id))
            assert [own["RANK"], theirs["RANK"]] == ["0", "1"]
            assert [own["NODE_RANK"], theirs["NODE_RANK"]] == ["0", "1"]
            assert {own["agent"], theirs["agent"]} == {"demo-1", "demo-2"}
            assert own["WORLD_SIZE"] == theirs["WORLD_SIZE"] == "2"
            assert own["LOCAL_RANK"] == theirs["LOCAL_RANK"] == "0"
            assert own["MASTER_ADDR"] == theirs["MASTER_ADDR"]
