"""The way to the server, step by step, without joining."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Final

from aliquot.errors import ConfigurationError
from aliquot.execution.devices.identity import node_identity
from aliquot.execution.remote.agent_setup import software_version
from aliquot.execution.remote.channel import ChannelClosed
from aliquot.execution.remote.codec import ProtocolError
from aliquot.execution.remote.connection_words import connection_words
from aliquot.execution.remote.conversation import Refused
from aliquot.execution.remote.dialing import Unreachable, dialled, introduce, read_key
from aliquot.execution.remote.node_checks import CheckResult, Grade
from aliquot.execution.remote.server_address import ServerAddress, server_address
from aliquot_schema.agent_protocol import PROTOCOLS, Hello, Welcome
from aliquot_schema.ids import AgentId

REACH_S_MAX: Final = 5.0
CLOCK_S_MAX: Final = 2.0


async def check_server(
    server: str, *, key_file: Path | None, ca_file: Path | None, agent_id: AgentId, now_us: Callable[[], int]
) -> list[CheckResult]:
    """Look at the way to the server, as far as it goes."""
    try:
        address = server_address(server, ca_file=ca_file)
    except ConfigurationError as error:
        return [CheckResult(name="server", grade=Grade.FAIL, seen=str(error), to_do="give another --server")]
    reached = await _reach(address)
    if reached.grade is Grade.FAIL:
        return [reached]
    if key_file is None:
        without = CheckResult(name="key", grade=Grade.WARN, seen="not tried", to_do="give it with --key-file")
        return [reached, without]
    try:
        return [reached, *await _introduce(address, key=read_key(key_file), agent_id=agent_id, now_us=now_us)]
    except ConfigurationError as error:
        return [reached, CheckResult(name="key", grade=Grade.FAIL, seen=str(error), to_do="see above")]


async def _reach(address: ServerAddress) -> CheckResult:
    name = "reach of the server"
    place = f"{address.host}:{address.port}"
    try:
        async with asyncio.timeout(REACH_S_MAX):
            _, writer = await asyncio.open_connection(address.host, address.port, ssl=address.tls)
    except (OSError, TimeoutError) as error:
        seen = f"{place}: {connection_words(error, address)}"
        return CheckResult(name=name, grade=Grade.FAIL, seen=seen, to_do="see what was seen")
    writer.transport.abort()
    if address.tls is not None:
        return CheckResult(name=name, grade=Grade.OK, seen=f"{place}, TLS with a valid certificate")
    if address.host in ("127.0.0.1", "::1", "localhost"):
        return CheckResult(name=name, grade=Grade.OK, seen=f"{place}, on this host")
    to_do = "let the server be asked through https"
    return CheckResult(name=name, grade=Grade.WARN, seen=f"{place}, unencrypted: the key can be read", to_do=to_do)


async def _introduce(
    address: ServerAddress, *, key: str, agent_id: AgentId, now_us: Callable[[], int]
) -> list[CheckResult]:
    hello = Hello(
        agent_id=agent_id,
        boot_id=node_identity().boot_id,
        instance="check",
        software_version=software_version(),
        protocols=PROTOCOLS,
        probe=True,
    )
    try:
        async with asyncio.timeout(REACH_S_MAX), dialled(address, agent_id=agent_id, key=key) as channel:
            before_us = now_us()
            welcome = await introduce(channel, hello)
            after_us = now_us()
    except (Refused, Unreachable, ChannelClosed, ProtocolError, TimeoutError) as error:
        seen = str(error) or f"no answer ({type(error).__name__})"
        return [CheckResult(name="key and protocol", grade=Grade.FAIL, seen=seen, to_do="see what the server says")]
    seen = f"accepted as {agent_id} by {welcome.software_version}, protocol {welcome.protocol}"
    return [
        CheckResult(name="key and protocol", grade=Grade.OK, seen=seen),
        _clock(welcome, before_us=before_us, after_us=after_us),
    ]


def _clock(welcome: Welcome, *, before_us: int, after_us: int) -> CheckResult:
    """The server read its clock somewhere between the two moments."""
    off_s = (welcome.now_us - (before_us + after_us) / 2) / 1e6
    seen = f"the server's is {abs(off_s):.3f} s {'ahead' if off_s > 0 else 'behind'}"
    if abs(off_s) <= CLOCK_S_MAX + (after_us - before_us) / 1e6:
        return CheckResult(name="clock", grade=Grade.OK, seen=seen)
    return CheckResult(name="clock", grade=Grade.WARN, seen=seen, to_do="keep both by NTP: what is shown will look odd")
