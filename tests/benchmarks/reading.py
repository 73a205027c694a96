"""Cost of GraphQL beside raw JSON: the same answer from the API and from a hand-written route."""

import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, Final

import orjson
from http_load import Connection, request
from msgspec.structs import replace
from registry import Key, scenario
from served import Serving, served
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

# The read models are shared with the tests; only pytest adds their support folder.
sys.path.append(str(Path(__file__).parents[1] / "support"))

import api_views as views
from aliquot_schema.views.agents import AgentView, DeviceView
from aliquot_schema.views.sessions import SessionView
from api_server import TOKEN, Stage, on_stage

AGENTS: Final = 100
DEVICES: Final = 8
SESSIONS: Final = 100
WARM: Final = 10
REQUESTS: Final = 200
READ: Final = """
{
  agents(first: 100) { edges { node {
    id hostname state schedulable pool
    devices {
      id name model health isolation memory_bytes capacity used free utilization_pct temperature_c
      holders { user session_id share }
    }
  } } }
  sessions(first: 100) { edges { node { id owner name state priority queued_at cluster_size slots { slot amount } } } }
}
"""


@scenario(
    Key(
        name="graphql_x_raw",
        what="CPU of a request: 100 agents x 8 devices + 100 sessions, GraphQL / Starlette + orjson",
        reach="<= 3",
    ),
)
async def reading() -> dict[str, float]:
    """Both answer from the same in-memory read models, in a separate process, with the same listener."""
    graphql_s, answer = await _cpu_s(graphql)
    raw_s, same = await _cpu_s(raw)
    assert orjson.loads(same) == orjson.loads(answer)["data"]
    print(f"  {graphql_s * 1e3:.2f} ms, and {raw_s * 1e3:.2f} ms raw", file=sys.stderr, flush=True)
    return {"graphql_x_raw": graphql_s / raw_s}


async def graphql(serve: Serving) -> None:
    """The whole application."""
    stage = Stage()
    async with on_stage(stage, 0) as running:
        running.cluster.agents, running.cluster.sessions = _agents(), _sessions()
        await serve(stage)


async def raw(serve: Serving) -> None:
    """One route of Starlette, without a schema, checks or errors."""
    agents, sessions = _agents(), _sessions()

    async def give(asked: Request) -> Response:
        orjson.loads(await asked.body())
        answer = {
            "agents": {"edges": [{"node": _agent(agent)} for agent in agents]},
            "sessions": {"edges": [{"node": _session(session)} for session in reversed(sessions)]},
        }
        return Response(orjson.dumps(answer, option=orjson.OPT_UTC_Z), media_type="application/json")

    await serve(Starlette(routes=[Route("/graphql", give, methods=["POST"])]))


def _agents() -> list[AgentView]:
    devices = range(DEVICES)
    return [
        replace(
            views.agent(agent),
            devices=tuple(views.device(device, views.holder(f"ses_{agent}_{device}")) for device in devices),
        )
        for agent in range(AGENTS)
    ]


def _sessions() -> list[SessionView]:
    return [views.session(number) for number in range(SESSIONS)]


def _agent(agent: AgentView) -> dict[str, Any]:
    return {
        "id": agent.id,
        "hostname": agent.hostname,
        "state": agent.state,
        "schedulable": agent.schedulable,
        "pool": agent.pool,
        "devices": [_device(device) for device in agent.devices],
    }


def _device(device: DeviceView) -> dict[str, Any]:
    return {
        "id": device.id,
        "name": device.name,
        "model": device.model,
        "health": device.health,
        "isolation": device.isolation,
        "memory_bytes": device.memory_bytes,
        "capacity": device.capacity,
        "used": device.used,
        "free": device.free,
        "utilization_pct": device.utilization_pct,
        "temperature_c": device.temperature_c,
        "holders": [
            {"user": holder.user, "session_id": holder.session_id, "share": holder.share} for holder in device.holders
        ],
    }


def _session(session: SessionView) -> dict[str, Any]:
    return {
        "id": session.id,
        "owner": session.owner,
        "name": session.name,
        "state": session.state,
        "priority": session.priority.name.lower(),
        "queued_at": session.queued_at,
        "cluster_size": session.cluster_size,
        "slots": [{"slot": each.slot, "amount": each.amount} for each in session.slots],
    }


async def _cpu_s(run: Callable[[Serving], Coroutine[Any, Any, None]]) -> tuple[float, bytes]:
    """The server's CPU time for one request, and an answer."""
    body = request(READ)
    async with served(run) as server, Connection(server.port, TOKEN) as connection:
        for _ in range(WARM):
            answer = await connection.post(body)
        before = server.cpu_s()
        for _ in range(REQUESTS):
            await connection.post(body)
        return (server.cpu_s() - before) / REQUESTS, answer
