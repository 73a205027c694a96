"""`aliquot clusters`: reading and writing its file."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.client.config import clusters_file, read_clusters


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    for name in ("key", "lab.key", "a b.key"):
        (tmp_path / name).touch()
    return tmp_path


def _run(*words: str, code: int = 0) -> str:
    done = CliRunner().invoke(main, ["clusters", *words])
    assert done.exit_code == code, done.output
    return done.output


def test_the_first_cluster_is_the_default_until_another_is_selected(folder: Path) -> None:
    _run("add", "lab", "https://lab:8090", "--key-file", str(folder / "lab.key"))
    _run("add", 'at"tic', "http://attic", "--key-file", str(folder / "a b.key"))
    assert [(one["name"], one["is_default"]) for one in json.loads(_run("list", "--json"))] == [
        ("lab", True),
        ('at"tic', False),
    ]
    _run("use", 'at"tic')
    assert [one.name for one in read_clusters() if one.is_default] == ['at"tic']
    assert read_clusters()[1].key_file == folder / "a b.key"
    _run("remove", 'at"tic')
    assert [(one.name, one.is_default) for one in read_clusters()] == [("lab", False)]


def test_adding_a_known_cluster_replaces_it_and_other_keys_are_kept(folder: Path) -> None:
    clusters_file().parent.mkdir()
    clusters_file().write_text('[clusters.lab]\nurl = "http://lab"\nkey = "secret"\n')
    _run("add", "other", "http://other", "--key-file", "key")
    assert read_clusters()[0].place().token == "secret"
    assert "secret" not in _run("list") + _run("list", "--json")
    _run("add", "lab", "http://new", "--key-file", "key")
    assert [one.url for one in read_clusters()] == ["http://other", "http://new"]


def test_the_clusters_file_is_readable_only_by_its_owner(folder: Path) -> None:
    _run("add", "lab", "http://lab", "--key-file", "key")
    assert clusters_file().stat().st_mode & 0o777 == 0o600


def test_a_key_file_that_does_not_exist_is_refused(folder: Path) -> None:
    said = _run("add", "lab", "http://lab", "--key-file", "nosuch", code=2)
    assert said == f"aliquot: --key-file {folder}/nosuch: No such file or directory\n"
    assert not clusters_file().exists()


def test_a_clusters_file_that_cannot_be_written_is_named(folder: Path) -> None:
    clusters_file().with_suffix(".new").mkdir(parents=True)
    said = _run("add", "lab", "http://lab", "--key-file", "key", code=2)
    assert said == f"aliquot: {clusters_file()} cannot be written: Is a directory\n"


@pytest.mark.parametrize("words", [("use", "lab"), ("remove", "lab"), ("add", "lab", "lab:8090", "--key-file", "k")])
def test_invalid_cluster_arguments_are_refused(folder: Path, words: tuple[str, ...]) -> None:
    _run(*words, code=2)
    assert not clusters_file().exists()
