"""Inputs of users and keys. A field of a change that is left out, or null, stays as it is."""

import strawberry

from aliquot_schema.account_views import NewApiKey, NewUser, UserChanges
from aliquot_schema.graphql.descriptions import optional
from aliquot_schema.graphql.enums import KeyScope, Role


@strawberry.input(description="A new user.")
class CreateUserInput:
    name: str = strawberry.field(description="Letters, digits and . _ @ + -")
    role: Role = strawberry.field(default=Role.USER, description="What the user may do.")
    unix_name: str | None = optional("The Unix account that the user's jobs run as.")
    projects: list[str] | None = optional("Whose sessions the user takes part in.")

    def to_request(self) -> NewUser:
        """For the accounts."""
        return NewUser(name=self.name, role=self.role, unix_name=self.unix_name, projects=tuple(self.projects or ()))


@strawberry.input(description="Changes of a user.")
class UpdateUserInput:
    name: str = strawberry.field(description="Which one.")
    role: Role | None = optional("What the user may do.")
    unix_name: str | None = optional("The Unix account that the user's jobs run as; empty is none.")
    projects: list[str] | None = optional("All of them, in place of those before.")
    disabled: bool | None = optional("Whether nobody comes in by the user's keys.")
    forget_identity: bool | None = optional(
        "Whether who this was at the identity provider counts no more: whoever comes next under the name is this user."
    )
    expected_version: int | None = optional("Refuse if it is not at this version.")

    def to_changes(self) -> UserChanges:
        """For the accounts."""
        return UserChanges(
            role=self.role,
            unix_name=self.unix_name,
            projects=None if self.projects is None else tuple(self.projects),
            disabled=self.disabled,
            forget_identity=bool(self.forget_identity),
        )


@strawberry.input(description="A user to disable.")
class DisableUserInput:
    name: str = strawberry.field(description="Which one.")
    expected_version: int | None = optional("Refuse if it is not at this version.")


@strawberry.input(description="A new key.")
class CreateApiKeyInput:
    user: str = strawberry.field(description="Whose it is to be.")
    name: str = strawberry.field(description="What it is for.")
    scope: KeyScope = strawberry.field(default=KeyScope.SUBMIT, description="What it allows at most.")
    expires_in: float | None = optional("Seconds; without them it holds until it is revoked.")

    def to_request(self) -> NewApiKey:
        """For the accounts."""
        return NewApiKey(user=self.user, name=self.name, scope=self.scope, expires_in=self.expires_in)
