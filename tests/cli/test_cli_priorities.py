"""Priorities on the command line: names and numbers, and errors without GraphQL terms."""

import json

import pytest
from typer.testing import CliRunner, Result

from aliquot.cli import main
from aliquot.cli.connection.server import fault_text
from rest_server import RestServer


def _run(server: RestServer, *words: str) -> Result:
    return CliRunner().invoke(
        main, list(words), env={"ALIQUOT_SERVER": server.address, "ALIQUOT_TOKEN": server.token, "COLUMNS": "200"}
    )


@pytest.mark.parametrize(("text", "name"), [("4", "critical"), ("1", "low"), ("HIGH", "high"), ("normal", "normal")])
def test_a_priority_is_a_name_or_a_number(text: str, name: str, demo_server: RestServer) -> None:
    made = _run(demo_server, "session", "create", "--priority", text, "--hold", "--json", "--", "true")
    assert made.exit_code == 0, made.output
    session = json.loads(made.stdout)
    listed = _run(demo_server, "session", "list", "--priority", text, "--json")
    assert session["priority"] == name
    assert session["id"] in {one["id"] for one in json.loads(listed.stdout)}
    assert _run(demo_server, "session", "cancel", session["id"]).exit_code == 0


@pytest.mark.parametrize("words", [("create", "--priority", "urgent", "--", "true"), ("list", "--priority", "9")])
def test_an_invalid_priority_is_refused_with_the_valid_ones(words: tuple[str, ...], demo_server: RestServer) -> None:
    refused = _run(demo_server, "session", *words)
    assert refused.exit_code == 2
    assert f"--priority {words[2]}: give low, normal, high or critical, or a number from 1 (low)" in refused.output


@pytest.mark.parametrize("given", [4, "4", "critical", "CRITICAL"])
def test_graphql_takes_numbers_as_text_too(given: int | str, demo_server: RestServer) -> None:
    query = "query ($level: Priority!) { sessions(filter: { priorities: [$level] }) { total_count } }"
    with demo_server.client() as http:
        answer = http.post("/graphql", json={"query": query, "variables": {"level": given}}).json()
    assert "errors" not in answer, answer


def test_error_messages_contain_no_graphql_terms(demo_server: RestServer) -> None:
    refused = _run(demo_server, "session", "create", "--retries", "99999999999", "--", "true")
    assert refused.exit_code == 3
    assert refused.output.strip() == "aliquot: max_retries: 99999999999 is not a whole number from -2^31 to 2^31 - 1"


@pytest.mark.parametrize(
    ("message", "words"),
    [
        ("Variable '$input' has invalid value at .slots[0].amount: too long", "amount: too long"),
        ("Cannot query field 'x' on type 'Query'.", "the server has another version of Aliquot and does not know this "
         "request; upgrade the older side, or use the client of the server's version"),
        ("Something else.", "Something else."),
    ],
)  # fmt: skip
def test_graphql_errors_are_translated_to_command_line_terms(message: str, words: str) -> None:
    assert fault_text([{"message": message}]) == words
