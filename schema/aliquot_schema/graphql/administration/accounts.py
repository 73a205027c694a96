"""GraphQL API of users and API keys.

Admins manage both; every user can read their own account and revoke their own keys. In inputs that change something,
null fields are unchanged.
"""

from datetime import datetime
from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.graphql import errors
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.enums import KeyScope, Role
from aliquot_schema.graphql.errors import ALWAYS, answer, union
from aliquot_schema.graphql.fields import argument, optional, root_field
from aliquot_schema.graphql.scalars import BigInt
from aliquot_schema.views.accounts import (
    ApiKeyCreated,
    ApiKeyRevoked,
    ApiKeyView,
    CalendarFeedView,
    MeView,
    NewApiKey,
    NewUser,
    UserChanged,
    UserChanges,
    UserView,
)


@strawberry.input(description="A user to create.")
class CreateUserInput:
    name: str = strawberry.field(description="Name of the user: letters, digits and `. _ @ + -`.")
    role: Role = strawberry.field(default=Role.USER, description="Role of the user.")
    unix_name: str | None = optional("Unix account that the user's jobs run as.")
    projects: list[str] | None = optional("Projects the user is a member of.")

    def to_request(self) -> NewUser:
        """The input as a request."""
        return NewUser(name=self.name, role=self.role, unix_name=self.unix_name, projects=tuple(self.projects or ()))


@strawberry.input(description="Changes of a user. Null fields are unchanged.")
class UpdateUserInput:
    name: str = strawberry.field(description="Name of the user.")
    role: Role | None = optional("Role of the user.")
    unix_name: str | None = optional("Unix account that the user's jobs run as; empty = none.")
    projects: list[str] | None = optional("Projects the user is a member of; replaces the list.")
    disabled: bool | None = optional("Whether the user's keys are rejected.")
    forget_identity: bool | None = optional(
        "Whether to unlink the identity at the OIDC provider; the next one that signs in under this name is linked."
    )
    expected_version: int | None = optional("Expected current version; fails with VersionConflict otherwise.")

    def to_changes(self) -> UserChanges:
        """The input as a request."""
        return UserChanges(
            role=self.role,
            unix_name=self.unix_name,
            projects=None if self.projects is None else tuple(self.projects),
            disabled=self.disabled,
            forget_identity=bool(self.forget_identity),
        )


@strawberry.input(description="A user to disable.")
class DisableUserInput:
    name: str = strawberry.field(description="Name of the user.")
    expected_version: int | None = optional("Expected current version; fails with VersionConflict otherwise.")


@strawberry.input(description="An API key to create.")
class CreateApiKeyInput:
    user: str = strawberry.field(description="Its owner.")
    name: str = strawberry.field(description="Its purpose.")
    scope: KeyScope = strawberry.field(default=KeyScope.SUBMIT, description="Upper bound on what it allows.")
    expires_in: float | None = optional("Lifetime in seconds; null = until it is revoked.")
    gpu_hours_max: float | None = optional("Budget in GPU-hours, by price; null = no limit.")
    sessions_max: int | None = optional("Budget in sessions, each task of an array counted; null = no limit.")
    dry_run_first: bool = strawberry.field(
        default=False, description="Whether each request must be previewed within 10 minutes before it is submitted."
    )

    def to_request(self) -> NewApiKey:
        """The input as a request."""
        return NewApiKey(
            user=self.user,
            name=self.name,
            scope=self.scope,
            expires_in=self.expires_in,
            gpu_hours_max=self.gpu_hours_max,
            sessions_max=self.sessions_max,
            dry_run_first=self.dry_run_first,
        )


@strawberry.type(description="A user.")
class User:
    name: str = strawberry.field(description="Name of the user; owner of their sessions.")
    version: int = strawberry.field(description="Incremented by every change; see `expected_version`.")
    role: Role = strawberry.field(description="Role of the user.")
    unix_name: str | None = strawberry.field(description="Unix account that the user's jobs run as.")
    projects: list[str] = strawberry.field(description="Projects the user is a member of.")
    disabled: bool = strawberry.field(description="Whether the user's keys are rejected.")
    created_at: datetime = strawberry.field(description="When the user was created.")
    changed_at: datetime = strawberry.field(description="When the user was last changed.")


@strawberry.type(description="The authenticated caller, with their rights under the key in use.")
class Me:
    name: str = strawberry.field(description="Name of the user.")
    role: Role = strawberry.field(description="Effective role under this key.")
    projects: list[str] = strawberry.field(description="Projects the user is a member of.")
    unix_name: str | None = strawberry.field(description="Unix account that the user's jobs run as.")
    key_id: strawberry.ID | None = strawberry.field(
        description="The key in use, or a reference to a token of the OIDC provider; null for the server's own token."
    )


@strawberry.type(description="An API key. Its secret is shown once, on creation.")
class ApiKey:
    id: strawberry.ID = strawberry.field(description="`key_...`; the bearer token begins with it.")
    version: int = strawberry.field(description="Incremented by every change.")
    user: str = strawberry.field(description="Its owner.")
    name: str = strawberry.field(description="Its purpose.")
    scope: KeyScope = strawberry.field(description="Upper bound on what it allows.")
    created_at: datetime = strawberry.field(description="When it was created.")
    expires_at: datetime | None = strawberry.field(description="When it expires; null = never.")
    revoked_at: datetime | None = strawberry.field(description="When it was revoked.")
    is_valid: bool = strawberry.field(description="Whether it is accepted now.")
    gpu_hours_max: float | None = strawberry.field(description="Budget in GPU-hours, by price; null = no limit.")
    sessions_max: int | None = strawberry.field(description="Budget in sessions; null = no limit.")
    gpu_hours: float = strawberry.field(
        description="GPU-hours of its sessions, running ones included; 0 for a key without a budget."
    )
    submitted: int = strawberry.field(
        description="Sessions submitted with it, each task of an array counted; 0 for a key without a budget."
    )
    dry_run_first: bool = strawberry.field(
        description="Whether each request must be previewed within 10 minutes before it is submitted."
    )


_ON_USER: Final = (*ALWAYS, errors.NotFound, errors.StateConflict, errors.VersionConflict)
_ON_NEW_KEY: Final = (*ALWAYS, errors.NotFound, errors.StateConflict)
_ON_KEY: Final = (*ALWAYS, errors.NotFound)


@strawberry.type(description="The user was created or changed.")
class UserChangeSuccess:
    user: User = strawberry.field(description="The user.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")
    jobs_run_as: str | None = strawberry.field(
        description="Which Unix account the user's jobs run as, as a sentence; null if the user submits none."
    )
    warning: str | None = strawberry.field(description="That the user's Unix account is missing on a host.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, UserChanged)


@strawberry.type(description="The key was created.")
class CreateApiKeySuccess:
    api_key: ApiKey = strawberry.field(description="The key.")
    secret: str = strawberry.field(
        description="The bearer token, for the header `Authorization: Bearer`. It is not stored and is never shown "
        "again."
    )
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, ApiKeyCreated)


@strawberry.type(description="The key was revoked.")
class RevokeApiKeySuccess:
    api_key: ApiKey = strawberry.field(description="The key.")
    revision: BigInt = strawberry.field(description="Event number of the change; for `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, ApiKeyRevoked)


UserChangeResult = union("UserChangeResult", UserChangeSuccess, *_ON_USER)


@strawberry.type(description="Secret addresses of your calendar feed (ICS), shown once; earlier ones stop working.")
class RenewCalendarFeedSuccess:
    mine: str = strawberry.field(description="Path of the feed with your bookings, from the server's root.")
    all: str = strawberry.field(description="Path of the feed with the bookings of all users.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, CalendarFeedView)


RenewCalendarFeedResult = union("RenewCalendarFeedResult", RenewCalendarFeedSuccess, *ALWAYS)
CreateApiKeyResult = union("CreateApiKeyResult", CreateApiKeySuccess, *_ON_NEW_KEY)
RevokeApiKeyResult = union("RevokeApiKeyResult", RevokeApiKeySuccess, *_ON_KEY)


@strawberry.type
class AccountQueries:
    """Part of `Query`."""

    @root_field(Me, "The authenticated caller.")
    async def me(self, info: Info[Context, None]) -> MeView:
        return info.context.services.accounts.me(info.context.caller)

    @root_field(list[User], "All users. For operators.")
    async def users(self, info: Info[Context, None]) -> tuple[UserView, ...]:
        return info.context.services.accounts.users(info.context.caller)

    @root_field(list[ApiKey], "API keys, oldest first: the caller's own; for admins, all.")
    async def api_keys(
        self,
        info: Info[Context, None],
        user: Annotated[str | None, argument("Only keys of this user.")] = None,
    ) -> tuple[ApiKeyView, ...]:
        return info.context.services.accounts.api_keys(info.context.caller, user=user)


@strawberry.type
class AccountMutations:
    """Part of `Mutation`."""

    @root_field(UserChangeResult, "Create a user. For admins.")
    async def create_user(
        self, info: Info[Context, None], input: Annotated[CreateUserInput, argument("The user.")]
    ) -> UserChanged | errors.Error:
        context = info.context
        return await answer(context.services.accounts.create_user(context.caller, input.to_request()), _ON_USER)

    @root_field(UserChangeResult, "Change a user. For admins.")
    async def update_user(
        self, info: Info[Context, None], input: Annotated[UpdateUserInput, argument("The user and the changes.")]
    ) -> UserChanged | errors.Error:
        context = info.context
        change = context.services.accounts.update_user(
            context.caller, input.name, input.to_changes(), input.expected_version
        )
        return await answer(change, _ON_USER)

    @root_field(UserChangeResult, "Reject all keys of a user. Their sessions keep running. For admins.")
    async def disable_user(
        self, info: Info[Context, None], input: Annotated[DisableUserInput, argument("The user.")]
    ) -> UserChanged | errors.Error:
        context = info.context
        return await answer(
            context.services.accounts.disable_user(context.caller, input.name, input.expected_version), _ON_USER
        )

    @root_field(CreateApiKeyResult, "Create an API key for a user. For admins.")
    async def create_api_key(
        self, info: Info[Context, None], input: Annotated[CreateApiKeyInput, argument("The key.")]
    ) -> ApiKeyCreated | errors.Error:
        context = info.context
        return await answer(context.services.accounts.create_api_key(context.caller, input.to_request()), _ON_NEW_KEY)

    @root_field(
        RenewCalendarFeedResult,
        "Make the secret addresses of your calendar feed, for a calendar program; earlier ones stop working.",
    )
    async def renew_calendar_feed(self, info: Info[Context, None]) -> CalendarFeedView | errors.Error:
        context = info.context
        return await answer(context.services.accounts.renew_calendar_feed(context.caller), ALWAYS)

    @root_field(
        RevokeApiKeyResult, "Revoke an API key and close its open connections. For admins, and for the key's owner."
    )
    async def revoke_api_key(
        self, info: Info[Context, None], id: Annotated[strawberry.ID, argument("The key.")]
    ) -> ApiKeyRevoked | errors.Error:
        return await answer(info.context.services.accounts.revoke_api_key(info.context.caller, id), _ON_KEY)
