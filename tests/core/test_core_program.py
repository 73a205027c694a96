"""The program name that identifies a command."""

import pytest

from aliquot.core.workloads import program_of


@pytest.mark.parametrize(
    ("argv", "program"),
    [
        (("/opt/bin/train", "--lr", "1"), "train"),
        (("python", "work/train.py", "--lr", "1"), "train.py"),
        (("python3.11", "-u", "-X", "dev", "train.py"), "train.py"),
        (("/usr/bin/python3", "-m", "torch.distributed.run", "train.py"), "train.py"),
        (("python", "-c", "print(1)"), "python"),
        (("python",), "python"),
        (("python", "-m"), "python"),
        (("bash", "run.sh", "7"), "run.sh"),
        (("/bin/sh", "-c", "sleep 5"), "sleep"),
        (("/bin/sh", "-c", "SEED=1 exec python3 eval.py --all"), "eval.py"),
        (("bash", "-lc", "'my tool' x"), "my tool"),
        (("/bin/sh", "-c", ""), "sh"),
        (("/bin/sh", "-c", "#!/bin/bash\n# train it\nmake data"), "make"),
        (("/bin/bash", "-c", "#!/bin/bash\n#SBATCH --gpus=1\nset -e", "/home/a/job.sh", "7"), "job.sh"),
        (("/bin/sh", "-c", 'A=1\nexec "$@"\n', "name", "/bin/bash", "-c", "#!/bin/bash\nls", "job.sh"), "job.sh"),
        (("python3", "-c", "#!/usr/bin/env python3\nprint(1)", "eval.py", "--all"), "eval.py"),
        (("python3", "-c", "#!/usr/bin/env python3\nprint(1)"), "python3"),
        (("/bin/sh", "-c"), "sh"),
        (("env", "A=1", "nice", "./simulate"), "simulate"),
        (("sh", "-c", 'exec "$@"', "name") * 500 + ("true",), "sh"),
        (("nice", "-n", "10", "python", "x.py"), "x.py"),
        (("nice", "-10", "./simulate"), "simulate"),
        (("/usr/bin/time", "-v", "-o", "t.txt", "python3", "x.py"), "x.py"),
        (("/usr/bin/env", "-i", "-u", "HOME", "A=1", "python3", "x.py"), "x.py"),
        (("timeout", "-k", "5", "2h", "numactl", "-N", "0", "--membind=0", "./simulate"), "simulate"),
        (("srun", "-n", "4", "--gpus-per-task=1", "--mem", "8G", "python", "x.py"), "x.py"),
        (("uv", "run", "--with", "torch", "python", "x.py"), "x.py"),
        (("torchrun", "--standalone", "--nproc_per_node", "4", "work/x.py", "eval.py"), "x.py"),
        (("torchrun", "--nproc-per-node=4", "-m", "lab.train"), "lab.train"),
        (("torchrun", "--no-python", "./simulate"), "torchrun"),
        (("accelerate", "launch", "--num_processes", "2", "x.py"), "x.py"),
        (("python", "-W", "ignore", "-m", "lab.train"), "lab.train"),
        (("python", "-m", "torch.distributed.launch", "--nproc_per_node", "2", "x.py"), "x.py"),
        (("bash", "-c", "cd /data && source env/bin/activate; python x.py"), "x.py"),
        (("bash", "-euo", "pipefail", "-c", "A=1\nexport B\npython \\\n  x.py"), "x.py"),
        (("bash", "-ce", "for i in 1 2; do nice -n 5 python 'my x.py'; done"), "my x.py"),
        (("bash", "-c", "cd /data"), "cd"),
        (("bash", "-c", 'echo "it\'s" | ./count'), "count"),
        (("bash", "-c", "python x.py 'open"), "x.py"),
        (("bash", "-o", "posix", "job.sh"), "job.sh"),
        (("nice", "-n"), None),
        (("./run", "x.py"), "run"),
        (("env", "A=1"), None),
        ((), None),
        (("/",), None),
        (("x" * 100,), "x" * 64),
    ],
)
def test_the_program_name_comes_from_the_command_of_the_owner(argv: tuple[str, ...], program: str | None) -> None:
    assert program_of(argv) == program
