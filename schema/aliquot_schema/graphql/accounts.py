"""Accounts: users and their keys. Changes are for admins; everybody may look at himself, and revoke his own keys."""

from typing import Annotated, Final

import strawberry
from graphql import GraphQLResolveInfo
from strawberry.types import Info

from aliquot_schema.account_views import ApiKeyCreated, ApiKeyRevoked, ApiKeyView, MeView, UserChanged, UserView
from aliquot_schema.graphql import errors
from aliquot_schema.graphql.accounts_inputs import (
    CreateApiKeyInput,
    CreateUserInput,
    DisableUserInput,
    UpdateUserInput,
)
from aliquot_schema.graphql.accounts_types import ApiKey, Me, User
from aliquot_schema.graphql.answers import ALWAYS, answer, union
from aliquot_schema.graphql.context import Context
from aliquot_schema.graphql.descriptions import argument
from aliquot_schema.graphql.roots import root_field
from aliquot_schema.graphql.scalars import BigInt

_ON_USER: Final = (*ALWAYS, errors.NotFound, errors.StateConflict, errors.VersionConflict)
_ON_NEW_KEY: Final = (*ALWAYS, errors.NotFound, errors.StateConflict)
_ON_KEY: Final = (*ALWAYS, errors.NotFound)


@strawberry.type(description="The user is as it says here.")
class UserChangeSuccess:
    user: User = strawberry.field(description="The user.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, UserChanged)


@strawberry.type(description="The key holds from now on.")
class CreateApiKeySuccess:
    api_key: ApiKey = strawberry.field(description="The key.")
    secret: str = strawberry.field(
        description="What its owner shows to come in, as `Authorization: Bearer`. It is nowhere kept, and never shown "
        "again."
    )
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, ApiKeyCreated)


@strawberry.type(description="Nobody comes in by the key any more.")
class RevokeApiKeySuccess:
    api_key: ApiKey = strawberry.field(description="The key.")
    revision: BigInt = strawberry.field(description="For `min_revision`.")

    @classmethod
    def is_type_of(cls, value: object, _info: GraphQLResolveInfo[Context]) -> bool:
        return isinstance(value, ApiKeyRevoked)


UserChangeResult = union("UserChangeResult", UserChangeSuccess, *_ON_USER)
CreateApiKeyResult = union("CreateApiKeyResult", CreateApiKeySuccess, *_ON_NEW_KEY)
RevokeApiKeyResult = union("RevokeApiKeyResult", RevokeApiKeySuccess, *_ON_KEY)


@strawberry.type
class AccountQueries:
    """Part of `Query`."""

    @root_field(Me, "Who asks.")
    async def me(self, info: Info[Context, None]) -> MeView:
        return info.context.accounts.me(info.context.caller)

    @root_field(list[User], "Everybody who may come in, for operators.")
    async def users(self, info: Info[Context, None]) -> tuple[UserView, ...]:
        return info.context.accounts.users(info.context.caller)

    @root_field(list[ApiKey], "Keys, the oldest first: one's own; for admins, all.")
    async def api_keys(
        self,
        info: Info[Context, None],
        user: Annotated[str | None, argument("Of this user alone.")] = None,
    ) -> tuple[ApiKeyView, ...]:
        return info.context.accounts.api_keys(info.context.caller, user=user)


@strawberry.type
class AccountMutations:
    """Part of `Mutation`."""

    @root_field(UserChangeResult, "Let somebody in, who comes with a key.")
    async def create_user(
        self, info: Info[Context, None], input: Annotated[CreateUserInput, argument("Who.")]
    ) -> UserChanged | errors.Error:
        context = info.context
        return await answer(context.accounts.create_user(context.caller, input.to_request()), _ON_USER)

    @root_field(UserChangeResult, "Change a user.")
    async def update_user(
        self, info: Info[Context, None], input: Annotated[UpdateUserInput, argument("Who, and what changes.")]
    ) -> UserChanged | errors.Error:
        context = info.context
        change = context.accounts.update_user(context.caller, input.name, input.to_changes(), input.expected_version)
        return await answer(change, _ON_USER)

    @root_field(UserChangeResult, "Let somebody in no more, by no key; what runs goes on.")
    async def disable_user(
        self, info: Info[Context, None], input: Annotated[DisableUserInput, argument("Who.")]
    ) -> UserChanged | errors.Error:
        context = info.context
        return await answer(context.accounts.disable_user(context.caller, input.name, input.expected_version), _ON_USER)

    @root_field(CreateApiKeyResult, "Make a key for a user.")
    async def create_api_key(
        self, info: Info[Context, None], input: Annotated[CreateApiKeyInput, argument("For whom, and for what.")]
    ) -> ApiKeyCreated | errors.Error:
        context = info.context
        return await answer(context.accounts.create_api_key(context.caller, input.to_request()), _ON_NEW_KEY)

    @root_field(RevokeApiKeyResult, "Let nobody in by a key any more, and close the sockets that it opened.")
    async def revoke_api_key(
        self, info: Info[Context, None], id: Annotated[strawberry.ID, argument("The key.")]
    ) -> ApiKeyRevoked | errors.Error:
        return await answer(info.context.accounts.revoke_api_key(info.context.caller, id), _ON_KEY)
