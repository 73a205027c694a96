"""`python -m aliquot`: the same as the command `aliquot`."""

from aliquot.cli import main

if __name__ == "__main__":
    main(prog_name="aliquot")
