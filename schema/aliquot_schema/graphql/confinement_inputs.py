"""Inputs of a new session that say what it may use besides its slots, what it sees, and what it is told in secret."""

import strawberry

from aliquot_schema.graphql.enums import SandboxProfile as SandboxProfile


@strawberry.input(description="What each kernel may use at most; the operator's settings say more.")
class SessionLimitsInput:
    processes: int | None = strawberry.field(default=None, description="Processes and threads at one time.")
    open_files: int | None = strawberry.field(default=None, description="Open files of each process.")


@strawberry.input(description="A secret of yours that each kernel is given: as a variable, as a file, or both.")
class SecretUseInput:
    name: str = strawberry.field(description="Its name, as of `set_secret`.")
    as_env: str | None = strawberry.field(default=None, description="The variable's name.")
    as_file: str | None = strawberry.field(
        default=None, description="The file's name, in the folder that ALIQUOT_SECRETS_DIR names."
    )
