"""The address and ports that an agent announces."""

import ipaddress
import socket

import pytest

from agent_harness import AgentHarness
from aliquot.errors import ConfigurationError
from aliquot.execution.agent.config import NodeEndpoint, own_address


def test_the_default_ports_are_below_the_ephemeral_port_range() -> None:
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as file:
        lowest, _ = map(int, file.read().split())
    usual = NodeEndpoint()
    assert usual.port_first < usual.port_last
    assert usual.port_last < lowest or lowest != 32_768


def test_ports_are_written_as_a_range() -> None:
    reach = NodeEndpoint.of(address="gpu01", ports="20000-20009")
    assert (reach.address, reach.port_first, reach.port_last) == ("gpu01", 20_000, 20_009)
    assert NodeEndpoint.of(address=None, ports=None) == NodeEndpoint()


@pytest.mark.parametrize("ports", ["", "29500", "2-1", "80-90", "70000-70001", "29500-", "x-y", "30000-29000"])
def test_an_invalid_port_range_is_refused(ports: str) -> None:
    with pytest.raises(ConfigurationError, match="29500-30499"):
        NodeEndpoint.of(address=None, ports=ports)


@pytest.mark.parametrize("server", ["", "localhost", "127.0.0.1", "no-such-host.invalid"])
def test_a_local_or_unreachable_server_does_not_determine_the_own_address(server: str) -> None:
    assert own_address(server) == own_address()
    ipaddress.ip_address(own_address())


def test_the_own_address_belongs_to_this_machine() -> None:
    with socket.socket(socket.AF_INET6 if ":" in own_address() else socket.AF_INET) as own:
        own.bind((own_address(), 0))


@pytest.mark.anyio
async def test_an_agent_reports_its_address_and_ports(harness: AgentHarness) -> None:
    told = harness.inventory.agent.capabilities
    assert (told.address, told.port_first, told.port_last) == (own_address(), 29_500, 30_499)
