"""Program names: what a command runs, beneath the wrappers, shells, interpreters and launchers that start it."""

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from typing import Final, NamedTuple

NAME_CHARS_MAX: Final = 64
TEXT_CHARS_MAX: Final = 4096
"""Of a shell's text, the part that is looked at."""
DEPTH_MAX: Final = 8
"""Shells inside shells that are looked into for the program; deeper ones are named as programs themselves."""
SHELLS: Final = frozenset({"sh", "bash", "dash", "zsh", "ksh"})
SHELL_VALUES: Final = frozenset({"--rcfile", "--init-file"})
INTERPRETERS: Final = re.compile(r"(python|pypy|perl|ruby|node|julia|Rscript|php)[0-9.]*")
INTERPRETER_VALUES: Final[Mapping[str, frozenset[str]]] = {
    "python": frozenset({"-W", "-X", "--check-hash-based-pycs"}),
    "pypy": frozenset({"-W", "-X"}),
    "node": frozenset({"-r", "--require", "--import"}),
    "julia": frozenset({"-t", "--threads", "-p", "--procs", "-J", "--sysimage"}),
}
"""Options of interpreters that take the next word as their value."""
LAUNCHERS: Final = frozenset({"torchrun", "accelerate", "deepspeed"})
LAUNCHER_MODULES: Final = frozenset(
    {"torch.distributed.run", "torch.distributed.launch", "accelerate.commands.launch", "deepspeed.launcher.runner"}
)
ASSIGNMENT: Final = re.compile(r"[A-Za-z_][A-Za-z_0-9]*=.*", re.DOTALL)
TOKEN: Final = re.compile(r"""[;&|()\n]+|(?:'[^']*'|"(?:\\.|[^"\\])*"|\\.|[^\s;&|()'"\\])+""", re.DOTALL)
"""Words and separators of a shell's text. `shlex` refuses text with an open quote, and is slower."""
QUOTED: Final = re.compile(r"""'([^']*)'|"((?:\\.|[^"\\])*)"|\\(.)""", re.DOTALL)
SETUP: Final = frozenset(
    {
        ".",
        ":",
        "[",
        "[[",
        "cd",
        "date",
        "done",
        "echo",
        "esac",
        "eval",
        "exit",
        "export",
        "false",
        "fi",
        "for",
        "hostname",
        "mkdir",
        "ml",
        "module",
        "nvidia-smi",
        "popd",
        "printf",
        "pushd",
        "set",
        "shopt",
        "source",
        "test",
        "trap",
        "true",
        "ulimit",
        "umask",
        "unset",
        "wait",
        "}",
    }
)
"""Commands before the one that a shell is started for."""
KEYWORDS: Final = frozenset({"!", "{", "do", "else", "if", "then", "until", "while"})

INSTALLED: Final = re.compile(r"/.*bin")
"""Folders of programs. `./run` is a program of the owner's."""


class Wrapper(NamedTuple):
    """A program that runs the command in its arguments."""

    values: frozenset[str] = frozenset()
    """Options that take the next word as their value."""
    positional: int = 0
    """Words before the command."""


def _wrapper(values: str = "", *, positional: int = 0) -> Wrapper:
    return Wrapper(frozenset(values.split()), positional)


UV: Final = "--with --extra --group --project --directory --env-file --package --python -p -m --module"
SRUN: Final = (
    "-A --account -B -C --constraint -c --cpus-per-task -D --chdir -d -e --error -G --gpus -i --input -J --job-name -L "
    "-m --distribution -n --ntasks -N --nodes -o --output -p --partition -q --qos -r -S -T -t --time -w --nodelist -x "
    "--exclude --container-image --container-mounts --container-name --container-workdir --cpu-bind --cpus-per-gpu "
    "--export --gpu-bind --gpus-per-node --gpus-per-task --gres --jobid --mem --mem-per-cpu --mem-per-gpu --mpi "
    "--ntasks-per-node --reservation --wait"
)
WRAPPERS: Final[Mapping[str, Wrapper]] = {
    "env": _wrapper("-u --unset -C --chdir"),
    "exec": _wrapper("-a"),
    "ionice": _wrapper("-c --class -n --classdata"),
    "nice": _wrapper("-n --adjustment"),
    "nohup": _wrapper(),
    "numactl": _wrapper("-N -m -C -i -p --cpunodebind --membind --physcpubind --interleave --preferred"),
    "run": _wrapper(UV),
    "setsid": _wrapper(),
    "srun": _wrapper(SRUN),
    "stdbuf": _wrapper("-i --input -o --output -e --error"),
    "taskset": _wrapper(positional=1),
    "time": _wrapper("-f --format -o --output"),
    "timeout": _wrapper("-s --signal -k --kill-after", positional=1),
    "uv": _wrapper("--project --directory"),
}


def program_of(argv: Sequence[str], *, depth: int = 0) -> str | None:
    """The base name of a command's program, of an interpreter's or launcher's script or module, or of the first command
    of `sh -c` that is more than preparation.

    A script that is passed as text, as by `aliquot session create job.sh`, is named by its file. None if there is none.
    """
    words = _unwrapped(argv)
    if not words:
        return None
    name = _name(words[0])
    if name in SHELLS and depth < DEPTH_MAX:
        return _of_shell(words, depth=depth) or name
    if name in LAUNCHERS:
        return _of_launcher(words[1:]) or name
    if INTERPRETERS.fullmatch(name):
        return _of_interpreter(words, values=INTERPRETER_VALUES.get(name.rstrip("0123456789."), frozenset())) or name
    return name or None


def _unwrapped(argv: Sequence[str]) -> Sequence[str]:
    """The command without the assignments and wrappers before it."""
    start = 0
    while start < len(argv):
        folder, _, name = argv[start].rpartition("/")
        wrapper = WRAPPERS.get(name) if not folder or INSTALLED.fullmatch(folder) else None
        if wrapper is not None:
            start = _after_options(argv, start + 1, wrapper.values) + wrapper.positional
        elif ASSIGNMENT.fullmatch(argv[start]):
            start += 1
        else:
            break
    return argv[start:]


def _after_options(words: Sequence[str], start: int, values: frozenset[str]) -> int:
    """The place of the first word that is neither an option nor its value."""
    while start < len(words) and words[start].startswith("-"):
        if words[start] == "--":
            return start + 1
        start += 2 if words[start] in values else 1
    return start


def _of_shell(words: Sequence[str], *, depth: int) -> str | None:
    """The program that a shell runs. Its options may be joined: `-lc`, `-eo pipefail`."""
    start = 1
    while start < len(words) and words[start][:1] in ("-", "+"):
        option = words[start]
        start += 1
        is_joined = not option.startswith("--")
        if is_joined and "c" in option:
            start += option[-1] in "oO"
            return _of_text(words[start:], depth=depth + 1)
        start += option in SHELL_VALUES or (is_joined and option[-1] in "oO")
    return _name(words[start]) if start < len(words) else None


def _of_text(words: Sequence[str], *, depth: int) -> str | None:
    """The program of a shell's text, which may be followed by its name (`$0`) and arguments."""
    if not words:
        return None
    text, *given = words
    if len(given) > 1 and text.rstrip().endswith('exec "$@"'):
        return program_of(given[1:], depth=depth)
    if given and text.startswith("#!"):
        return _name(given[0])
    commands = list(_commands(text[:TEXT_CHARS_MAX]))
    is_setup = [command[0] in SETUP or command[:2] == ["conda", "activate"] for command in commands]
    names = [program_of(command, depth=depth) for command in commands]
    main = (name for name, is_first in zip(names, is_setup, strict=True) if name is not None and not is_first)
    return next(main, None) or next(filter(None, names), None)


def _commands(text: str) -> Iterator[list[str]]:
    """The words of each command of a shell's text."""
    lines = (line for line in text.replace("\\\n", " ").splitlines() if not line.lstrip().startswith("#"))
    tokens = TOKEN.findall("\n".join(lines))
    for is_separator, group in groupby(tokens, key=lambda token: token[0] in ";&|()\n"):
        words = [] if is_separator else [_unquoted(token) for token in group]
        while words and words[0] in KEYWORDS:
            del words[0]
        if words:
            yield words


def _unquoted(token: str) -> str:
    return QUOTED.sub(lambda found: found[1] or found[2] or found[3] or "", token)


def _of_interpreter(words: Sequence[str], *, values: frozenset[str]) -> str | None:
    start = 1
    while start < len(words) and words[start].startswith("-"):
        option, rest = words[start], words[start + 1 :]
        if option == "-m" and rest:
            module = rest[0][:NAME_CHARS_MAX]
            return _of_launcher(rest[1:]) or module if module in LAUNCHER_MODULES else module
        if option in ("-c", "-e", "-m", "-"):
            text, name = (*rest[:2], "", "")[:2]
            return _name(name) if text.startswith("#!") else None
        start += 2 if option in values else 1
    return _name(words[start]) if start < len(words) else None


def _of_launcher(words: Sequence[str]) -> str | None:
    """The script or module that a launcher of processes starts; None if it is neither a `.py` file nor after `-m`."""
    for place, word in enumerate(words):
        if word in ("-m", "--module") and place + 1 < len(words):
            return words[place + 1][:NAME_CHARS_MAX]
        if word.endswith(".py") and not word.startswith("-"):
            return _name(word)
    return None


def _name(word: str) -> str:
    return word.strip("'\";&|()").rstrip("/").rpartition("/")[2][:NAME_CHARS_MAX]
