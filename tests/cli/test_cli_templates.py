"""Templates on the command line: parameters, and their session files."""

import json
from importlib.resources import files
from pathlib import Path

import pytest
from typer import Exit

from aliquot.cli.run.fields import read_text
from aliquot.cli.run.templates import _fields_of, _request, preset_fields, session_of
from aliquot_schema.errors import InvalidRequest
from aliquot_schema.views.templates import filled, parameters_of

FILE = """
command: python train.py --lr {{lr=0.1}}
resources: {gpu: "{{gpus}}", cpu: 4}
environment: {SEED: 1}
time-limit: 2h
preemptible: true
models: [H100]
"""


def test_a_session_file_converts_to_a_template_and_back(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(FILE)
    fields = _fields_of(path)
    assert [(one.name, one.default) for one in parameters_of(fields)] == [("gpus", None), ("lr", "0.1")]
    (one,) = read_text(json.dumps(session_of(filled(fields, {"gpus": "2"}))), file="train", folder=tmp_path)
    request = one.request()
    assert {amount.slot: amount.amount for amount in request.slots} == {"gpu": "2", "cpu": "4"}
    assert (request.command.shell, request.time_limit, request.preemptible) == ("python train.py --lr 0.1", 7200, True)


def test_template_values_are_checked_and_not_expanded_again() -> None:
    fields = {"command": "{{a}} {{b={c}}}", "fallbacks": [{"x": "{{a}}"}]}
    assert filled(fields, {"a": "{{a}}"}) == {"command": "{{a}} {{b={c}}}", "fallbacks": [{"x": "{{a}}"}]}
    for values in ({}, {"a": "1", "z": "2"}):
        with pytest.raises(InvalidRequest):
            filled(fields, values)
    with pytest.raises(InvalidRequest, match="dashboard only"):
        session_of({"fallbacks": [{"x": 1}]})


@pytest.mark.parametrize("name", json.loads(files("aliquot_schema").joinpath("presets.json").read_text()))
def test_presets_are_valid_sessions(name: str, tmp_path: Path) -> None:
    fields = preset_fields(name)
    assert fields is not None
    (one,) = read_text(json.dumps(session_of(filled(fields, {}))), file=name, folder=tmp_path)
    assert one.request().time_limit == 8 * 3600


def test_template_values_are_kept_as_written(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    text = "command: [python, train.py, --name, a b, \U0001f600]\nenvironment: {VERSION: 1.10, DEBUG: true}\n"
    file.write_text(text, encoding="utf-8")
    fields = json.loads(json.dumps(_fields_of(file)))
    asked = _request("job", fields, {})
    assert asked.command is not None
    assert asked.command.shell == "python train.py --name 'a b' '\U0001f600'"
    assert {one.name: one.value for one in asked.environment or ()} == {"VERSION": "1.10", "DEBUG": "true"}


def test_a_single_model_and_secrets_are_saved_by_name(tmp_path: Path) -> None:
    file = tmp_path / "job.yaml"
    file.write_text("command: ./run\nmodels: '*H100*'\nsecrets: [hf, wandb]\n")
    asked = _request("job", json.loads(json.dumps(_fields_of(file))), {})
    assert list(asked.models or ()) == ["*H100*"]
    assert [one.name for one in asked.secrets or ()] == ["hf", "wandb"]


@pytest.mark.parametrize("line", ["resources: [gpu]", "environment: [A=1]", "tags: a=1", "secrets: {hf: HF}"])
def test_a_value_of_the_wrong_kind_is_named_with_its_key(
    line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "job.yaml"
    file.write_text(f"command: ./run\n{line}\n")
    with pytest.raises(Exit):
        _fields_of(file)
    assert capsys.readouterr().err.startswith(f"aliquot: {file}: {line.partition(':')[0]}: ")


def test_a_default_at_a_later_use_of_a_parameter_applies() -> None:
    fields = {"command": "train --name run-{{lr}} --lr {{lr=0.1}}"}
    assert [one.default for one in parameters_of(fields)] == ["0.1"]
    assert filled(fields, {})["command"] == "train --name run-0.1 --lr 0.1"


def test_an_empty_list_of_conditions_replaces_the_default() -> None:
    text = "defaults: {after: prepare, command: ./x}\nsessions:\n  prepare: {after: []}\n  train: {}\n"
    sessions = {one.name: one.after for one in read_text(text, file="f.yaml", folder=Path("/tmp"))}
    assert sessions["prepare"] == ()
    assert [after[0] for after in sessions["train"]] == ["prepare"]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("resources: gpu=1", "resources: expected `NAME: VALUE`"),
        ("environment: [A=1]", "environment: expected `NAME: VALUE`"),
        ("tags: {a: [b]}", "tags: expected `NAME: VALUE`"),
        ("name: {a: b}", "name: expected text, or a list of texts"),
        ("models: [{a: b}]", "models: expected text, or a list of texts"),
        ("preemptible: maybe", "preemptible: expected true or false"),
        ("command: ", "`command` is missing"),
    ],
)
def test_a_value_of_a_wrong_form_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], line: str, words: str
) -> None:
    path = tmp_path / "job.yaml"
    path.write_text(f"{line}\n" if "command" in line else f"command: true\n{line}\n")
    with pytest.raises(Exit):
        _fields_of(path)
    assert capsys.readouterr().err == f"aliquot: {path}: {words}\n"


def test_one_model_may_be_given_as_text(tmp_path: Path) -> None:
    path = tmp_path / "job.yaml"
    path.write_text("command: true\nmodels: H100\nresources:\napps: lab=8888\n")
    fields = _fields_of(path)
    assert (fields["models"], fields["cpu"], fields["apps"]) == ("H100", "1", "lab=8888")
