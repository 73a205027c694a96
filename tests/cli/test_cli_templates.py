"""Templates on the command line: parameters, and forms that are session files."""

import json
from importlib.resources import files
from pathlib import Path

import pytest

from aliquot.cli.run.fields import read_text
from aliquot.cli.run.templates import _fields_of, preset_fields, session_of
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


def test_a_session_file_becomes_a_form_and_again_a_session_file(tmp_path: Path) -> None:
    path = tmp_path / "train.yaml"
    path.write_text(FILE)
    fields = _fields_of(path)
    assert [(one.name, one.default) for one in parameters_of(fields)] == [("gpus", None), ("lr", "0.1")]
    (one,) = read_text(json.dumps(session_of(filled(fields, {"gpus": "2"}))), file="train", folder=tmp_path)
    request = one.request()
    assert {amount.slot: amount.amount for amount in request.slots} == {"gpu": "2", "cpu": "4"}
    assert (request.command.shell, request.time_limit, request.preemptible) == ("python train.py --lr 0.1", 7200, True)


def test_values_are_checked_and_are_not_read_again() -> None:
    fields = {"command": "{{a}} {{b={c}}}", "fallbacks": [{"x": "{{a}}"}]}
    assert filled(fields, {"a": "{{a}}"}) == {"command": "{{a}} {{b={c}}}", "fallbacks": [{"x": "{{a}}"}]}
    for values in ({}, {"a": "1", "z": "2"}):
        with pytest.raises(InvalidRequest):
            filled(fields, values)
    with pytest.raises(InvalidRequest, match="dashboard only"):
        session_of({"fallbacks": [{"x": 1}]})


@pytest.mark.parametrize("name", json.loads(files("aliquot_schema").joinpath("presets.json").read_text()))
def test_presets_are_sessions(name: str, tmp_path: Path) -> None:
    fields = preset_fields(name)
    assert fields is not None
    (one,) = read_text(json.dumps(session_of(filled(fields, {}))), file=name, folder=tmp_path)
    assert one.request().time_limit == 8 * 3600
