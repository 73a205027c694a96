"""`python -m aliquot`, and the command `aliquot`."""

import sys
from typing import NoReturn


def run() -> NoReturn:
    """Run the command line; Ctrl-C during its imports ends it without a traceback."""
    try:
        from aliquot.cli import main

        main(prog_name="aliquot")
    except KeyboardInterrupt:
        pass
    sys.exit(130)


if __name__ == "__main__":
    run()
