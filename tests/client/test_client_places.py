"""Choosing the server: arguments, the environment, the file of clusters, this machine."""

import re
from pathlib import Path

import pytest

from aliquot.client import BlockingClient, Client, NoPlace, Place, find_place
from aliquot.client.config import LOCAL_URL, local_token_file, read_clusters
from aliquot.execution.settings import default_data_folder

FILE = """
default = "lab"

[clusters.lab]
url = "https://lab:8090"
key = "lab-key"

[clusters.attic]
url = "http://attic:8090"
key-file = "{folder}/attic.key"
"""


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("SERVER", "TOKEN", "TOKEN_FILE", "CLUSTER", "CA_FILE", "DATA_FOLDER"):
        monkeypatch.delenv(f"ALIQUOT_{name}", raising=False)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    (tmp_path / "aliquot").mkdir()
    (tmp_path / "attic.key").write_text("attic-key\n")
    return tmp_path / "aliquot" / "clusters.toml"


@pytest.fixture
def clusters(config: Path, tmp_path: Path) -> Path:
    config.write_text(FILE.format(folder=tmp_path))
    return config


def test_the_default_cluster_is_used_without_arguments(clusters: Path) -> None:
    assert find_place() == Place(url="https://lab:8090", token="lab-key")


def test_a_cluster_is_taken_by_its_name(clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    attic = Place(url="http://attic:8090", token="attic-key")
    assert find_place(cluster="attic") == attic
    monkeypatch.setenv("ALIQUOT_CLUSTER", "attic")
    assert find_place() == attic


def test_the_environment_overrides_the_clusters_file(clusters: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_SERVER", "http://other:1")
    monkeypatch.setenv("ALIQUOT_TOKEN", "from-the-environment")
    assert find_place() == Place(url="http://other:1", token="from-the-environment")
    assert find_place(cluster="lab").token == "lab-key"


def test_arguments_override_the_environment_and_the_clusters_file(
    clusters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIQUOT_SERVER", "http://other:1")
    monkeypatch.setenv("ALIQUOT_TOKEN", "from-the-environment")
    found = find_place(server="http://given:2", token_file=tmp_path / "attic.key")
    assert found == Place(url="http://given:2", token="attic-key")


def test_the_local_server_is_used_without_configuration(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ALIQUOT_TOKEN_FILE", str(tmp_path / "attic.key"))
    assert find_place() == Place(url=LOCAL_URL, token="attic-key")
    assert local_token_file() == default_data_folder() / "token"
    monkeypatch.setenv("ALIQUOT_DATA_FOLDER", str(tmp_path))
    assert local_token_file() == default_data_folder() / "token" == tmp_path / "token"


def test_a_given_token_file_overrides_the_cluster_key(clusters: Path, tmp_path: Path) -> None:
    assert find_place(token_file=tmp_path / "attic.key") == Place(url="https://lab:8090", token="attic-key")
    assert find_place(cluster="lab", token_file=tmp_path / "attic.key").token == "attic-key"


def test_giving_a_cluster_and_a_server_is_refused(clusters: Path) -> None:
    with pytest.raises(NoPlace, match="give one of them"):
        find_place(cluster="lab", server="http://given:2")


def test_a_ca_file_is_set_by_the_cluster_or_the_environment(
    clusters: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clusters.write_text(FILE.format(folder=tmp_path) + f'ca-file = "{tmp_path}/ca.pem"\n')
    attic = find_place(cluster="attic")
    assert attic.ca_file == tmp_path / "ca.pem"
    monkeypatch.setenv("ALIQUOT_SERVER", "https://other:1")
    monkeypatch.setenv("ALIQUOT_TOKEN", "t")
    monkeypatch.setenv("ALIQUOT_CA_FILE", "/ca.pem")
    assert find_place().ca_file == Path("/ca.pem")
    with pytest.raises(NoPlace, match=r"no certificate in .*ca.pem"):
        BlockingClient(url="https://attic:8090", token="t", ca_file=attic.ca_file)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "gpu01:8090",
        "ftp://gpu01",
        "http://",
        "http://gpu01:port",
        "https://[::1",
        "HTTPS://g",
        "http://g\th",
        "http://g?a",
    ],
)
def test_an_invalid_server_address_is_refused(url: str) -> None:
    with pytest.raises(NoPlace, match="not the address of a server"):
        Client(url, "t")


def test_an_unknown_cluster_is_refused_with_the_known_ones(clusters: Path) -> None:
    with pytest.raises(NoPlace, match="no cluster cellar; it has lab, attic"):
        find_place(cluster="cellar")


def test_a_missing_token_error_names_the_token_file(config: Path, tmp_path: Path) -> None:
    with pytest.raises(NoPlace, match=r"no token in .*nowhere.*--token-file"):
        find_place(token_file=tmp_path / "nowhere")


def test_comments_and_empty_lines_around_a_key_are_skipped(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "# of vera\n\n  the-key \n"
    (tmp_path / "vera.key").write_text(text)
    assert find_place(token_file=tmp_path / "vera.key").token == "the-key"
    monkeypatch.setenv("ALIQUOT_TOKEN", text)
    assert find_place().token == "the-key"


@pytest.mark.parametrize(
    ("text", "count"), [("", "none"), ("\n", "none"), ("# of vera\n", "none"), ("one\ntwo\n", "2 lines")]
)
def test_a_key_file_must_have_exactly_one_key_line(clusters: Path, tmp_path: Path, text: str, count: str) -> None:
    file = tmp_path / "attic.key"
    file.write_text(text)
    message = re.escape(f"{file}: it must have one key on one line; it has {count}")
    with pytest.raises(NoPlace, match=message):
        find_place(token_file=file)
    with pytest.raises(NoPlace, match=message):
        find_place(cluster="attic")


def test_a_token_variable_that_is_no_token_is_refused(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALIQUOT_TOKEN", "one\ntwo")
    with pytest.raises(NoPlace, match=r"^ALIQUOT_TOKEN: it must have one key on one line; it has 2 lines$"):
        find_place()
    monkeypatch.setenv("ALIQUOT_TOKEN", "key\udcff")
    with pytest.raises(NoPlace, match=r"^ALIQUOT_TOKEN: it is not a token"):
        find_place()


@pytest.mark.parametrize(
    "text",
    [
        "not toml",
        "clusters = 3",
        "other = 1",
        "[clusters]\nlab = 'http://x'",
        "[clusters.lab]\nurl = 'http://x'",
        "[clusters.lab]\nurl = 'http://x'\nkey = 'a'\nkey-file = 'b'",
        "[clusters.lab]\nurl = 'http://x'\nkey = 3",
        "[clusters.lab]\nkey = 'x'",
        "[clusters.lab]\nurl = 'x'\nkey = 'x'\ncolour = 'red'",
    ],
)
def test_an_invalid_clusters_file_is_refused_with_its_name(config: Path, text: str) -> None:
    config.write_text(text)
    with pytest.raises(NoPlace, match=r"clusters\.toml"):
        read_clusters()


def test_a_key_is_not_printed() -> None:
    assert "secret" not in repr(Place(url="http://x", token="secret"))
