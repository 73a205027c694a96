"""How `aliquot session create` reads its words: what a script asks for at its head stands before them."""

from pathlib import Path
from typing import Any, Final

from typer.core import TyperCommand

from aliquot.cli.connection.asking import usage
from aliquot.cli.session.script import Script, ScriptError
from aliquot.cli.session.slurm_notation import SlurmError

SCRIPT: Final = "aliquot.script"
"""The script, in the context's `meta`; absent where a command stands after `--`."""


class CreateCommand(TyperCommand):
    """Reads the script's directives as options, so that those of the command line, which come later, hold."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """As its parent does, on the script's words and these."""
        words = [] if ctx.resilient_parsing else self._positional(ctx, args)
        is_command = len(words) < len(args) and args[len(args) - len(words) - 1] == "--"
        if words and not is_command:
            script = _read(Path(words[0]))
            ctx.meta[SCRIPT] = script
            args = [*script.words, *args]
        return super().parse_args(ctx, args)

    def _positional(self, ctx: Any, args: list[str]) -> list[str]:
        """What is no option: the end of the words, from the first on that is none."""
        given, _, _ = self.make_parser(ctx).parse_args(args=list(args))
        return list(given.get("command") or ())


def _read(path: Path) -> Script:
    try:
        return Script.read(path)
    except (ScriptError, SlurmError) as error:
        usage(str(error))
