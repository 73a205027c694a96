"""Agent keys: made once, checked, revoked, and read again when they change."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from aliquot.errors import ConfigurationError
from aliquot.execution.remote.agent_keys import KeyFile
from aliquot.execution.remote.dialing import CurrentKey, read_key, server_address
from aliquot_schema.errors import InvalidRequest, NotFound, StateConflict
from aliquot_schema.ids import AgentId

A = AgentId("a")


def test_an_agent_key_is_valid_until_it_is_revoked(tmp_path: Path) -> None:
    server, command = KeyFile(tmp_path / "keys.json"), KeyFile(tmp_path / "keys.json")
    assert not server.verify(A, "anything")
    key = command.create(A, now_us=5)
    assert server.verify(A, key)
    assert server.known() == {A}
    assert not server.verify(A, key + "x")
    assert not server.verify(AgentId("b"), key)
    command.revoke(A, now_us=9)
    assert not server.verify(A, key)
    assert server.known() == frozenset()
    assert server.entries()[A].revoked_us == 9


def test_the_key_file_contains_no_plain_key_and_is_readable_only_by_its_owner(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    key = keys.create(A, now_us=5)
    assert key not in (tmp_path / "keys.json").read_text()
    assert (tmp_path / "keys.json").stat().st_mode & 0o777 == 0o600


def test_an_agent_key_is_replaced_only_on_request(tmp_path: Path) -> None:
    keys = KeyFile(tmp_path / "keys.json")
    first = keys.create(A, now_us=5)
    with pytest.raises(StateConflict):
        keys.create(A, now_us=6)
    second = keys.create(A, now_us=6, replace=True)
    assert (keys.verify(A, first), keys.verify(A, second)) == (False, True)
    keys.revoke(A, now_us=7)
    with pytest.raises(NotFound):
        keys.revoke(A, now_us=8)
    assert keys.verify(A, keys.create(A, now_us=9))


@pytest.mark.parametrize("id", ["", ".", "../x", "-x", "a b", "ä", "a/b", "x" * 121])
def test_agent_ids_that_are_not_valid_folder_names_get_no_key(tmp_path: Path, id: str) -> None:
    with pytest.raises(InvalidRequest):
        KeyFile(tmp_path / "keys.json").create(AgentId(id), now_us=5)


def test_concurrent_key_commands_lose_no_keys(tmp_path: Path) -> None:
    ids = [AgentId(f"a{number}") for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda id: KeyFile(tmp_path / "keys.json").create(id, now_us=1), ids))
    assert KeyFile(tmp_path / "keys.json").known() == set(ids)


@pytest.mark.parametrize("text", ["", "[]", '{"format": 1}', '{"format": 1, "keys": {"a": {"x": 1}}}', '{"format": 9}'])
def test_a_damaged_key_file_admits_no_agent(tmp_path: Path, text: str) -> None:
    (tmp_path / "keys.json").write_text(text)
    with pytest.raises(ValueError):
        KeyFile(tmp_path / "keys.json").verify(A, "x")


def test_the_key_file_has_the_documented_format(tmp_path: Path) -> None:
    KeyFile(tmp_path / "keys.json").create(A, now_us=5)
    fields = json.loads((tmp_path / "keys.json").read_text())
    assert fields["format"] == 1
    assert set(fields["keys"]["a"]) == {"sha256", "created_us", "revoked_us"}


@pytest.mark.parametrize(("mode", "text"), [(0o644, "key"), (0o640, "key"), (0o600, ""), (0o600, "two words")])
def test_a_key_file_without_a_key_or_readable_by_others_is_refused(tmp_path: Path, mode: int, text: str) -> None:
    path = tmp_path / "key"
    path.write_text(text)
    path.chmod(mode)
    with pytest.raises(ConfigurationError, match="key-file"):
        read_key(path)
    with pytest.raises(ConfigurationError, match="key-file"):
        read_key(tmp_path / "none")


def test_a_private_key_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "key"
    path.write_text("agk_x\n")
    path.chmod(0o600)
    assert read_key(path) == "agk_x"


def test_a_new_key_is_read_and_an_unusable_file_leaves_the_old_one(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = tmp_path / "key"
    path.write_text("agk_x\n")
    path.chmod(0o600)
    key = CurrentKey(path)
    path.write_text("agk_y\n")
    assert key() == "agk_y"
    path.write_text("")
    assert [key(), key()] == ["agk_y", "agk_y"]
    assert [record.message.count("has no key") for record in caplog.records] == [1]


@pytest.mark.parametrize(
    ("url", "socket"),
    [
        ("http://h:1", "ws://h:1/agents/socket"),
        ("https://h", "wss://h/agents/socket"),
        ("ws://h:1/agents/socket", "ws://h:1/agents/socket"),
        ("https://h/below/", "wss://h/below/agents/socket"),
    ],
)
def test_server_urls_are_converted_to_websocket_urls(url: str, socket: str) -> None:
    assert server_address(url).url == socket


@pytest.mark.parametrize("url", ["h:8090", "ftp://h", "http://", "http://h:x", "http://h?q", "http://u@h"])
def test_an_invalid_server_address_is_refused(url: str) -> None:
    with pytest.raises(ConfigurationError, match="server"):
        server_address(url)


def test_a_ca_file_needs_https_and_must_contain_certificates(tmp_path: Path) -> None:
    (tmp_path / "ca").write_text("nothing")
    for url, file in (("http://h", tmp_path / "ca"), ("https://h", tmp_path / "ca"), ("https://h", tmp_path / "none")):
        with pytest.raises(ConfigurationError, match="ca-file"):
            server_address(url, ca_file=file)
