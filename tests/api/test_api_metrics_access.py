"""Access to the metrics by key and by setting, and the server's health conditions."""

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from aliquot.app.health import CertificateExpiry, conditions_of, metrics_token
from aliquot.app.running import Running, WatchedDatabase
from aliquot.errors import ConfigurationError
from aliquot.service.leadership.ports import LeadershipStatus, ServerRole
from aliquot.service.metrics.counters import StoreMeasures
from aliquot.service.metrics.health import LoopLag
from aliquot.service.state.agents import DiskSpace
from aliquot.settings import Settings, read_settings
from aliquot_schema.ids import AgentId
from api_server import BEARER
from metrics_cluster import Scraped, scraped

CREATE_USER = 'mutation { create_user(input: {name: "bob", role: viewer}) { __typename } }'
CREATE_KEY = """mutation { create_api_key(input: {user: "bob", name: "prometheus", scope: read}) {
  ... on CreateApiKeySuccess { secret api_key { id } } } }"""
REVOKE = "mutation ($id: ID!) { revoke_api_key(id: $id) { __typename } }"


async def ask(server: Scraped, query: str, **variables: Any) -> dict[str, Any]:
    answer = await server.http.post("/graphql", headers=BEARER, json={"query": query, "variables": variables})
    data: dict[str, Any] = answer.json()["data"]
    return data


@pytest.mark.anyio
async def test_a_viewers_key_opens_the_metrics_until_it_is_revoked() -> None:
    async with scraped() as server:
        await ask(server, CREATE_USER)
        made = (await ask(server, CREATE_KEY))["create_api_key"]
        shown = {"authorization": f"Bearer {made['secret']}"}
        assert (await server.http.get("/metrics", headers=shown)).status_code == 200
        await ask(server, REVOKE, id=made["api_key"]["id"])
        assert (await server.http.get("/metrics", headers=shown)).status_code == 401


@pytest.mark.anyio
async def test_open_metrics_are_refused_to_other_origins_and_hosts() -> None:
    async with scraped(is_open=True) as server:
        assert (await server.http.get("/metrics", headers={"origin": "https://evil.example"})).status_code == 403
        assert (await server.http.get("/metrics", headers={"host": "evil.example"})).status_code == 421


@pytest.mark.parametrize(
    "more", [{"host": "0.0.0.0", "single_trust_domain": True, "behind_proxy": True}, {"behind_proxy": True}]
)
def test_open_metrics_are_refused_where_others_can_connect(more: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match="metrics-open"):
        read_settings(metrics_open=True, **more)


def test_metrics_are_open_on_loopback_alone() -> None:
    assert read_settings(metrics_open=True).metrics_open


@pytest.mark.parametrize("text", ["", "short", "ÿ" * 20])
def test_an_invalid_metrics_token_file_is_refused(text: str, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(text)
    with pytest.raises(ConfigurationError, match="metrics-token-file"):
        metrics_token(Settings(metrics_token_file=file))
    with pytest.raises(ConfigurationError, match="metrics-token-file"):
        metrics_token(Settings(metrics_token_file=tmp_path / "nowhere"))


def test_the_metrics_token_is_read_from_its_file(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("0123456789abcdef\n")
    assert metrics_token(Settings(metrics_token_file=file)) == "0123456789abcdef"
    assert metrics_token(Settings()) is None


async def nothing() -> None:
    """Query nothing."""


class Patient:
    """A server with adjustable faults."""

    def __init__(self) -> None:
        self.space, self.lag, self.measures, self.failed = DiskSpace(), LoopLag(), StoreMeasures(), asyncio.Event()
        self.fault: str | None = None
        self.clock_warning: str | None = None
        self.leader: str | None = "https://one:8090"

    def codes(self) -> list[tuple[str, bool]]:
        state, history = SimpleNamespace(disk_space=self.space), SimpleNamespace(fault=None)
        standing = LeadershipStatus(
            role=ServerRole.FOLLOWER, address="https://two:8090", leader_address=self.leader, epoch=3, since_us=None
        )
        running = Running(
            cases=cast(Any, SimpleNamespace(state=state, history=history)),  # no other fields are read
            agents=cast(Any, None),
            outputs=None,
            side=lambda: None,
            standing=lambda: standing,
            missing=lambda: self.fault,
            failed=self.failed,
            database=WatchedDatabase(
                measures=self.measures, ask=nothing, mark=nothing, clock_warning=lambda: self.clock_warning
            ),
        )
        return [(condition.code, condition.is_fatal) for condition in conditions_of(running, self.lag)]


def test_a_follower_that_knows_its_leader_is_healthy() -> None:
    assert Patient().codes() == []


def test_conditions_that_prevent_serving_are_fatal() -> None:
    patient = Patient()
    patient.fault = "the log cannot be read"
    assert patient.codes() == [("database_down", True)]
    patient.fault = None
    patient.measures.note_silence()
    assert patient.codes() == [("database_down", True)]
    patient.lag.note(6.0)
    patient.failed.set()
    assert patient.codes() == [("loop_failed", True), ("event_loop_stalled", True)]


def test_conditions_that_do_not_prevent_serving_are_warnings() -> None:
    patient = Patient()
    patient.leader = None
    patient.space.agents[AgentId("a")] = "the disk of /x is full"
    assert patient.codes() == [("leader_unknown", False), ("agent_disk_low", False)]
    patient.space.server = "the disk of /y is full"
    assert patient.codes() == [("leader_unknown", False), ("disk_low", False), ("agent_disk_low", False)]
    patient.clock_warning = "the clocks differ"
    assert patient.codes()[-1] == ("clock_differs", False)


@pytest.mark.parametrize(
    ("days", "left_days", "words"),
    [
        (365, 15, None),
        (365, 13, "expires on"),
        (365, -1, "expired on"),
        (5, 4, None),
        (5, 0.5, "expires on"),
    ],
)
def test_a_certificate_is_warned_about_before_it_expires(
    tmp_path: Path, days: float, left_days: float, words: str | None
) -> None:
    file, ends = tmp_path / "server.pem", datetime(2030, 1, 1, tzinfo=UTC)
    expiry = CertificateExpiry(file, wall_us=lambda: round((ends - timedelta(days=left_days)).timestamp() * 1e6))
    assert expiry.warning() is None, "it is not there yet"
    file.write_bytes(certificate_until(ends, days=days))
    found = expiry.warning()
    assert (found is None) == (words is None)
    assert words is None or f"{words} 2030-01-01 at 00:00 UTC" in str(found)


def certificate_until(ends: datetime, *, days: float) -> bytes:
    """A certificate that signs itself, in PEM."""
    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "x")])
    made = x509.CertificateBuilder(
        issuer_name=name,
        subject_name=name,
        public_key=key.public_key(),
        serial_number=1,
        not_valid_before=ends - timedelta(days=days),
        not_valid_after=ends,
    )
    return made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
