"""The program name that identifies a command."""

import pytest

from aliquot.core.prediction import program_of


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (("/opt/bin/train", "--lr", "1"), "train"),
        (("python", "work/train.py", "--lr", "1"), "train.py"),
        (("python3.11", "-u", "-X", "train.py"), "train.py"),
        (("/usr/bin/python3", "-m", "torch.distributed.run", "train.py"), "torch.distributed.run"),
        (("python", "-c", "print(1)"), "python"),
        (("python",), "python"),
        (("python", "-m"), "python"),
        (("bash", "run.sh", "7"), "run.sh"),
        (("/bin/sh", "-c", "sleep 5"), "sleep"),
        (("/bin/sh", "-c", "SEED=1 exec python3 eval.py --all"), "eval.py"),
        (("bash", "-lc", "'my tool' x"), "my"),
        (("/bin/sh", "-c", ""), "sh"),
        (("/bin/sh", "-c", "#!/bin/bash\n# train it\nmake data"), "make"),
        (("/bin/bash", "-c", "#!/bin/bash\n#SBATCH --gpus=1\nset -e", "/home/a/job.sh", "7"), "job.sh"),
        (("/bin/sh", "-c", 'A=1\nexec "$@"\n', "name", "/bin/bash", "-c", "#!/bin/bash\nls", "job.sh"), "job.sh"),
        (("python3", "-c", "#!/usr/bin/env python3\nprint(1)", "eval.py", "--all"), "eval.py"),
        (("python3", "-c", "#!/usr/bin/env python3\nprint(1)"), "python3"),
        (("/bin/sh", "-c"), "sh"),
        (("env", "A=1", "nice", "./simulate"), "simulate"),
        (("sh", "-c", 'exec "$@"', "name") * 500 + ("true",), "sh"),
        (("env", "A=1"), None),
        ((), None),
        (("/",), None),
        (("x" * 100,), "x" * 64),
    ],
)
def test_the_program_name_comes_from_the_command_of_the_owner(argv: tuple[str, ...], program: str | None) -> None:
    assert program_of(argv) == program
