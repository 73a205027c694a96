"""Mutation testing of policies:`scripts/mutate [MODULE ...] [--survivors]`."""

import argparse
import os
import subprocess
import sys
from pathlib import Path

from accepted import accepted_by
from outcome import Outcome, outcomes, print_outcomes
from workplace import MODULES, PLACE, ROOT, prepare


def main() -> int:
    """Run the tool, and print the results."""
    options = _options()
    modules = options.modules or list(MODULES)
    unknown = sorted(set(modules) - set(MODULES))
    if unknown:
        print(f"no policy is called {', '.join(unknown)}; there are {', '.join(MODULES)}", file=sys.stderr)
        return 2
    prepare()
    again = _survivors(outcomes(modules)) if options.survivors else []
    names = again or [f"aliquot.core.{module.replace('/', '.').removesuffix('.__init__')}.x*" for module in modules]
    tool = [str(Path(sys.executable).with_name("mutmut")), "run", "--max-children", "1", *names]
    # The plug-in that limits CPU is named explicitly, because pytest has not read its own `pythonpath` yet.
    # Without bytecode files, every mutant would compile the tests anew, which takes longer than most runs.
    environment = os.environ | {"PYTHONPATH": str(PLACE / "tests" / "support"), "PYTHONDONTWRITEBYTECODE": ""}
    ran = subprocess.run(tool, cwd=PLACE, env=environment, check=False)
    if ran.returncode:
        print("the tool itself failed: nothing is known", file=sys.stderr)
        return ran.returncode
    return print_outcomes(outcomes(modules), accepted=accepted_by(ROOT / "tests" / "mutation" / "accepted.toml"))


def _survivors(found: list[Outcome]) -> list[str]:
    return [mutant.name for outcome in found for mutant in outcome.survivors]


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/mutate", description=__doc__)
    parser.add_argument("modules", nargs="*", metavar="MODULE", help="a policy, such as quota or ordering/sjf")
    parser.add_argument("--survivors", action="store_true", help="try those again that the last run left alive")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
