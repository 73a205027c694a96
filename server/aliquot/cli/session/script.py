"""Scripts with directives: the options that a script gives at its head, and the command that runs it."""

import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from msgspec import Struct

from aliquot.cli import UsageProblem
from aliquot.cli.session.slurm import SlurmWords, slurm_words, with_slurm_variables

OWN: Final = "#ALIQUOT"
SLURM: Final = "#SBATCH"
INTERPRETERS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh", "python", "perl", "Rscript"})
"""By their names without a version."""
_GPUS: Final = frozenset({"gpu", "cuda", "rocm"})
"""Families of slots that are GPUs."""
_CODE_FLAG: Final = {"perl": "-e", "Rscript": "-e"}


class ScriptError(Exception):
    """A script that cannot be submitted; the message names the reason."""


class Script(Struct, frozen=True, kw_only=True):
    """A script with its directives."""

    name: str
    text: str
    interpreter: tuple[str, ...]
    """Program and arguments, from the first line."""
    words: tuple[str, ...]
    """The directives, as options of `aliquot session create`."""
    notes: tuple[str, ...]
    """What is ignored, as messages for the user."""

    @classmethod
    def read(cls, path: Path) -> "Script":
        """Read a script.

        Raises:
            ScriptError: it cannot be read, or a directive is wrong.
        """
        try:
            text = path.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            why = error.strerror if isinstance(error, OSError) else "it is not UTF-8 text"
            raise ScriptError(f"{path}: {why}; a command other than a script goes after --") from None
        own = [word for line in _directives(text, mark=OWN) for word in _split(line, path)]
        slurm = slurm_words([word for line in _directives(text, mark=SLURM) for word in _split(line, path)])
        return cls(
            name=path.name,
            text=text,
            interpreter=_interpreter(text, path),
            words=(*_named(path, slurm, own), *slurm.words, *own),
            notes=(*slurm.notes, *_notes(text)),
        )

    def checked(self, parse: Callable[[list[str]], dict[str, Any]]) -> "Script":
        """The script itself.

        Args:
            parse: parses options of `aliquot session create`; what is not an option is in `command`.
        Raises:
            ScriptError: its directives have something else.
        """
        try:
            stray = parse(list(self.words)).get("command")
        except UsageProblem as raised:
            error: Any = raised
            raise ScriptError(f"{self.name}: {error.format_message()}") from None
        if stray:
            raise ScriptError(f"{self.name}: {stray[0]!r} in a directive is not an option; quote values with spaces")
        return self

    def command(self, arguments: tuple[str, ...]) -> tuple[str, ...]:
        """The command that runs the script on any node: it contains the script's text."""
        program = _kind(self.interpreter[0])
        # Shells take a name after the text, which becomes $0. Perl would read an argument like -v as its own option.
        between = (self.name,) if program.endswith("sh") else ("--",) if program == "perl" else ()
        argv = (*self.interpreter, _CODE_FLAG.get(program, "-c"), self.text, *between, *arguments)
        return with_slurm_variables(argv) if self.is_for_slurm else argv

    def words_beside(self, given: Mapping[str, Any]) -> tuple[str, ...]:
        """The directives beside a command line, whose GPUs replace those of the script under whatever name.

        Args:
            given: by name of the parameter, as parsed.
        """
        if not given.get("gpus") and not any(map(_asks_gpus, given.get("resources") or ())):
            return self.words
        kept: list[str] = []
        rest = iter(self.words)
        for word in rest:
            option, is_joined, value = word.partition("=") if word.startswith("--") else (word[:2], word[2:], word[2:])
            if option not in ("--gpus", "-r", "--resources"):
                kept.append(word)
                continue
            value = value if is_joined else next(rest, "")
            if option != "--gpus" and not _asks_gpus(value):
                kept += ("-r", value)
        return tuple(kept)

    @property
    def is_for_slurm(self) -> bool:
        """Whether it has directives or variables of Slurm."""
        return SLURM in self.text or "SLURM_" in self.text


def _asks_gpus(resource: str) -> bool:
    return resource.partition("=")[0].partition(".")[0] in _GPUS


def _directives(text: str, *, mark: str) -> list[str]:
    """The text after the mark, for each directive before the first command."""
    found = []
    for line in filter(str.strip, text.splitlines()):
        if not line.startswith("#"):
            break
        head, *rest = line.split(None, 1)  # by spaces or tabs
        if head == mark:
            found.extend(rest)
    return found


def _split(line: str, path: Path) -> list[str]:
    try:
        return shlex.split(line, comments=True)
    except ValueError as error:
        raise ScriptError(f"{path}: {line.strip()!r}: {error}") from None


def _interpreter(text: str, path: Path) -> tuple[str, ...]:
    first = text.partition("\n")[0]
    words = _split(first.removeprefix("#!"), path) if first.startswith("#!") else ["/bin/sh"]
    if words and Path(words[0]).name == "env":
        # `env -S` splits the first line into several words.
        words = [word for word in words[1:] if word != "-S"]
    if not words or _kind(words[0]) not in INTERPRETERS:
        raise ScriptError(f"{path}: its first line names no known interpreter; put the command after -- instead")
    return tuple(words)


def _kind(program: str) -> str:
    """The name of an interpreter without its folder and version."""
    return Path(program).name.rstrip("0123456789.")


def _named(path: Path, slurm: SlurmWords, own: list[str]) -> tuple[str, ...]:
    """The script's file name as the session's name, unless a directive gives one."""
    is_named = any(word.partition("=")[0] == "--name" for word in (*slurm.words, *own))
    return () if is_named else ("--name", path.name)


def _notes(text: str) -> list[str]:
    words = {word for line in text.splitlines() if not line.lstrip().startswith("#") for word in line.split()}
    found = []
    if "srun" in words:
        found.append("`srun` does not exist here: every task runs the whole script, so remove `srun`")
    if "scontrol" in words:
        found.append("`scontrol` does not exist here: the first node of a gang is in MASTER_ADDR")
    return found
