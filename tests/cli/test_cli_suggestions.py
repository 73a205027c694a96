"""Unknown commands: the suggestion is the command that was meant, never its opposite."""

import pytest
from typer.testing import CliRunner

from aliquot.cli import main
from aliquot.cli.suggestions import EQUIVALENTS

OPPOSITES = [
    ("session delete x", "session cancel"),
    ("session kill x", "session cancel"),
    ("session rm x", "session cancel"),
    ("session unhold x", "session release"),
    ("session suspend x", "session hold"),
    ("session cancle x", "session cancel"),
    ("session relase x", "session release"),
    ("agents undrain x", "agents resume"),
    ("user enable x", "user set NAME --enable"),
    ("key delete x", "key revoke"),
    ("cancel x", "session cancel"),
    ("delete x", "session cancel"),
    ("kill x", "session cancel"),
    ("session frobnicate x", None),
    ("frobnicate", None),
    ("users", "user list"),
    ("keys list", "key list"),
]


@pytest.mark.parametrize(("typed", "meant"), OPPOSITES)
def test_an_unknown_command_is_answered_with_the_intended_command(typed: str, meant: str | None) -> None:
    result = CliRunner().invoke(main, typed.split(), env={"COLUMNS": "200"})
    assert result.exit_code == 2
    assert "There is no command" in result.output
    assert ("Did you mean" in result.output) == (meant is not None)
    if meant is not None:
        assert f"Did you mean `aliquot {meant}`?" in result.output


@pytest.mark.parametrize("group", sorted(EQUIVALENTS))
def test_every_command_that_is_suggested_exists(group: str) -> None:
    for command in EQUIVALENTS[group].values():
        words = [word for word in f"{group} {command}".split() if word.islower() and not word.startswith("-")]
        result = CliRunner().invoke(main, [*words, "--help"])
        assert result.exit_code == 0, (words, result.output)
