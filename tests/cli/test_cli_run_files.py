"""Session files: parsing, errors with line numbers, and agreement with the schema."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml

from aliquot.cli.run.fields import CONDITIONS, read_text, schema
from aliquot.cli.run.keys import KEYS
from aliquot.client.generated.inputs import CommandInput
from aliquot_schema.errors import InvalidRequest

FOLDER = Path("/home/ada")
ONE = """
command: python train.py --lr 0.1
resources: {gpu: 0.5, mem: 16g}
time-limit: 2h30m
estimate: 90
working-directory: run
environment: {OMP_NUM_THREADS: 4}
tags: {team: vision}
secrets: [WANDB]
secret-files: {KEY: key.pem}
max-processes: 100
max-open-files: 2000
sandbox: true
priority: high
models: '*H100*'
apps: [lab=8888, board]
metrics: {loss: 'loss: {value}'}
checkpoint-signal: USR1
fallbacks:
  - {resources: {gpu: 0.25}, after: 1h}
"""
GRAPH = """
defaults: {project: vision, retries: 2}
sessions:
  report: {command: [python, report.py], after: [train, other], retries: 0}
  train: {command: python train.py, resources: {gpu: 2}, after: prepare, after-any: [ses_x]}
  prepare: {command: python prepare.py}
"""


def read(text: str) -> list[Any]:
    return read_text(text, file="jobs.yaml", folder=FOLDER)


def test_a_session_file_sets_every_request_field() -> None:
    [found] = read(ONE)
    request = found.request()
    assert (found.name, request.name, request.command.shell) == ("jobs", "jobs", "python train.py --lr 0.1")
    assert [(one.slot, one.amount) for one in request.slots] == [("gpu", "0.5"), ("mem", "16g")]
    assert (request.time_limit, request.estimated_duration, request.priority) == (9000.0, 90.0, "high")
    assert request.working_directory == "/home/ada/run"
    assert [(use.name, use.as_env, use.as_file) for use in request.secrets or ()] == [
        ("WANDB", "WANDB", None),
        ("KEY", None, "key.pem"),
    ]
    assert request.limits is not None
    assert (request.limits.processes, request.limits.open_files) == (100, 2000)
    assert request.fallbacks is not None
    assert request.fallbacks[0].after_s == 3600.0


def test_sessions_of_a_file_are_ordered_by_dependencies() -> None:
    found = read(GRAPH)
    assert [one.name for one in found] == ["prepare", "train", "report"]
    assert [(name, condition) for name, condition, _ in found[1].after] == [
        ("prepare", "after_ok"),
        ("ses_x", "after_any"),
    ]
    assert [one.request().project for one in found] == ["vision"] * 3
    assert [one.request().max_retries for one in found] == [2, 2, 0]
    assert list(found[2].request().command.argv or ()) == ["python", "report.py"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "jobs.yaml:1: give one document; it has 0"),
        ("a: 1\n---\nb: 2", "jobs.yaml:1: give one document; it has 2"),
        ("resources: {gpu: 1}", "jobs.yaml:1: `command` is missing"),
        ("command: x\n\nresorces: {gpu: 1}", "jobs.yaml:3: resorces: unknown key; use one of "),
        ("command: x\ntime-limit: soon", "jobs.yaml:2: time-limit: "),
        ("command: x\nretries: -1", "jobs.yaml:2: retries: '-1' is not a whole number"),
        ("command: x\npreemptible: maybe", "jobs.yaml:2: preemptible: 'maybe' is neither true nor false"),
        ("command: x\npriority: urgent", "jobs.yaml:2: priority: 'urgent' is unknown; use one of "),
        ("command: x\nresources: [gpu]", "jobs.yaml:2: resources: expected `key: value`"),
        ("command: {a: 1}", "jobs.yaml:1: command: expected a list"),
        ("command: x\napps: [a=b]", "jobs.yaml:2: apps: 'a=b' is not like lab=8888"),
        ("command: 'x", "jobs.yaml:1: invalid YAML: "),
        ("sessions: {}", "jobs.yaml: sessions: it has 0; 1 to 1000 are allowed"),
        ("sessions:\n  a: true", "jobs.yaml:2: sessions.a: expected `key: value`"),
        ("sessions:\n  a: {command: x, after: b}\n  b: {command: x, after: a}", "jobs.yaml:2: a waits for b"),
        ("sessions:\n  a: {command: x, after: a}", "jobs.yaml:2: a waits for a"),
        ("defaults: {x: 1}\nsessions:\n  a: {command: x}", "jobs.yaml:1: defaults.x: unknown key"),
        ("command: x\nfallbacks:\n  - {resources: {gpu: 1}}", "jobs.yaml:3: fallbacks: `after` is missing"),
    ],
)
def test_errors_in_a_session_file_are_reported_with_their_line(text: str, message: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read(text)
    assert refused.value.message.startswith(message)


def test_the_json_schema_has_every_key_and_agrees_with_the_parser() -> None:
    checker = jsonschema.Draft202012Validator(schema())
    checker.check_schema(schema())
    keys = set(schema()["oneOf"][0]["properties"])
    assert keys == {name.replace("_", "-") for name in ("command", *KEYS, *CONDITIONS)}
    for text in (ONE, GRAPH):
        checker.validate(yaml.safe_load(text))
    for text in ("resources: {gpu: 1}", "command: x\nresorces: {}", "sessions: {}", "command: x\nretries: -1"):
        assert not checker.is_valid(yaml.safe_load(text))


@pytest.mark.parametrize(
    ("text", "command", "limit"),
    [
        ("default", None, 60.0),
        ("./check --fast", {"shell": "./check --fast"}, 60.0),
        ("[./check, --fast]", {"argv": ["./check", "--fast"]}, 60.0),
        ("{command: ./check, limit: 3m}", {"shell": "./check"}, 180.0),
        ("{limit: 3m}", None, 180.0),
    ],
)
def test_a_preflight_is_an_own_command_or_the_agents_default(
    text: str, command: dict[str, Any] | None, limit: float
) -> None:
    whole = f"command: python train.py\npreflight: {text}\n"
    [found] = read(whole)
    check = found.request().preflight
    assert check is not None
    assert check.command == (None if command is None else CommandInput(**command))
    assert check.time_limit == limit
    jsonschema.validate(yaml.safe_load(whole), schema())


def test_an_array_in_a_file_has_steps_and_a_limit_as_in_slurm() -> None:
    found = read(
        "defaults: {array: 0-9:3%2}\nsessions:\n"
        "  a: {command: x}\n  b: {command: x, max-parallel: 3}\n  c: {command: x, array: 0-3%1}\n"
        "  d: {command: x, array: 7}\n"
    )
    requests = [one.request() for one in found]
    assert [one.array for one in requests] == ["0,3,6,9", "0,3,6,9", "0-3", "7"]
    assert [one.max_parallel for one in requests] == [2, 3, 1, None]
    for text, message in (
        ("array: 0-3%x", "jobs.yaml:2: array: 0-3%x: write it like 0-15, 1,3,5 or 0-15%4"),
        ("array: 0-3%2\nmax-parallel: 3", "jobs.yaml:1: the array has the limit 2 and max-parallel is 3"),
    ):
        with pytest.raises(InvalidRequest, match=message):
            read(f"command: x\n{text}")
