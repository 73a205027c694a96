"""Session templates: filled-in submit forms, personal ones and those that the members of a project share.

The record of a template is an action of the event log, so that the audit shows who saved and deleted it.
"""

from typing import Final

import msgspec
from msgspec import Struct

from aliquot.service.access import check_may_submit, check_project
from aliquot.service.ports import Clock
from aliquot.service.state.journal import Journal
from aliquot.service.state.projects import known_projects
from aliquot.service.state.state import State
from aliquot.service.state.unit_of_work import UnitOfWork
from aliquot.service.views.terms import moment
from aliquot_schema.errors import Forbidden, InvalidRequest, LimitExceeded, NotFound
from aliquot_schema.ids import ProjectId, RequestId, UserId, natural_key
from aliquot_schema.orchestration import Action
from aliquot_schema.requests import Caller, Role
from aliquot_schema.sessions import DEFAULT_PROJECT
from aliquot_schema.views.templates import (
    FIELDS_BYTES_MAX,
    NAME_CHARS_MAX,
    PARAMETERS_MAX,
    PERSONAL,
    TEMPLATES_MAX,
    SessionTemplateView,
    TemplateDeleted,
    TemplateSaved,
    parameters_of,
)

_PREFIX: Final = "template/"


class _TemplateLocation(Struct, frozen=True):
    """Where a template is kept."""

    project: ProjectId
    name: str
    owner: UserId

    @property
    def is_personal(self) -> bool:
        """Whether only its owner sees it."""
        return self.project == PERSONAL

    @property
    def action_id(self) -> str:
        """Id of its record; names of projects hold no slash and are not empty."""
        return f"{_PREFIX}/{self.owner}/{self.name}" if self.is_personal else f"{_PREFIX}{self.project}/{self.name}"

    def __str__(self) -> str:
        if self.is_personal:
            return f"template {self.name[:NAME_CHARS_MAX]} of yours"
        return f"template {self.name[:NAME_CHARS_MAX]} of project {self.project[:NAME_CHARS_MAX]}"


class Templates:
    """Use cases of templates."""

    def __init__(self, *, state: State, journal: Journal, clock: Clock) -> None:
        self._state = state
        self._journal = journal
        self._clock = clock

    def templates(self, caller: Caller) -> tuple[SessionTemplateView, ...]:
        """Templates of the caller, of their projects and of the default project; for operators of all projects."""
        found = [_view(action) for action in self._state.actions.values() if _is_kept(action)]
        own = [view for view in found if _sees(caller, view)]
        return tuple(sorted(own, key=lambda view: (natural_key(view.project), natural_key(view.name))))

    async def save_template(self, caller: Caller, project: str, name: str, fields: str) -> TemplateSaved:
        """Save a template.

        Args:
            fields: JSON object.
        Raises:
            Forbidden: the caller is a viewer or not a member, or another user owns the template.
            InvalidRequest, LimitExceeded.
        """
        check_may_submit(caller)
        place = _TemplateLocation(ProjectId(project), name.strip(), caller.user)
        if not place.is_personal:
            check_project(caller, place.project)
        self._check(place, fields)

        def change(draft: UnitOfWork) -> Action:
            known = draft.action(place.action_id)
            author: str = caller.user
            if known is not None and _is_kept(known):
                _check_author(caller, known, place)
                author = _author(known)
            else:
                self._check_room(place)
            facts = {"project": project, "name": place.name, "fields": fields, "by": caller.user, "author": author}
            saved = Action(id=place.action_id, facts=facts | {"saved_us": str(self._clock.now_us())})
            return draft.put(saved, "template_saved")

        saved = await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))
        return TemplateSaved(template=_view(saved), revision=self._state.revision)

    async def delete_template(self, caller: Caller, project: str, name: str) -> TemplateDeleted:
        """Delete a template.

        Raises:
            Forbidden: as for `save_template`.
            NotFound.
        """
        check_may_submit(caller)
        place = _TemplateLocation(ProjectId(project), name, caller.user)
        if not place.is_personal:
            check_project(caller, place.project)

        def change(draft: UnitOfWork) -> None:
            known = draft.action(place.action_id)
            if known is None or not _is_kept(known):
                raise NotFound(f"there is no {place}", kind="template", id=name[:NAME_CHARS_MAX])
            _check_author(caller, known, place)
            draft.put(Action(id=place.action_id, facts={"project": project, "name": name}), "template_deleted")

        await self._journal.transact(change, actor=caller.actor, request_id=RequestId(caller.request_id))
        return TemplateDeleted(project=project, name=name, revision=self._state.revision)

    def _check(self, place: _TemplateLocation, fields: str) -> None:
        if not 0 < len(place.name) <= NAME_CHARS_MAX or not place.name.isprintable():
            raise InvalidRequest(f"name: give 1 to {NAME_CHARS_MAX} printable characters", field="name")
        if (
            not place.is_personal
            and place.project != DEFAULT_PROJECT
            and place.project not in known_projects(self._state)
        ):
            raise InvalidRequest(f"project: there is no project {place.project[:80]}", field="project")
        size = len(fields.encode(errors="replace"))
        if size > FIELDS_BYTES_MAX:
            text = f"fields: {size} bytes are more than {FIELDS_BYTES_MAX}; put a long command into a file"
            raise LimitExceeded(text, field="fields", limit=FIELDS_BYTES_MAX, actual=size)
        try:
            parameters = parameters_of(msgspec.json.decode(fields, type=dict[str, object]))
        except (msgspec.MsgspecError, ValueError):
            raise InvalidRequest("fields: give a JSON object", field="fields") from None
        if len(parameters) > PARAMETERS_MAX:
            text = f"fields: {len(parameters)} parameters are more than {PARAMETERS_MAX}"
            raise LimitExceeded(text, field="fields", limit=PARAMETERS_MAX, actual=len(parameters))

    def _check_room(self, place: _TemplateLocation) -> None:
        prefix = place.action_id.removesuffix(place.name)
        kept = sum(_is_kept(action) and action.id.startswith(prefix) for action in self._state.actions.values())
        if kept >= TEMPLATES_MAX:
            raise LimitExceeded(
                f"name: {place.project or place.owner} has {kept} templates, which is the limit; delete one first",
                field="name",
                limit=TEMPLATES_MAX,
                actual=kept + 1,
            )


def _is_kept(action: Action) -> bool:
    return action.id.startswith(_PREFIX) and "fields" in action.facts


def _sees(caller: Caller, view: SessionTemplateView) -> bool:
    if view.project == PERSONAL:
        return view.saved_by == caller.user
    return caller.role >= Role.OPERATOR or _is_member(caller, view.project)


def _is_member(caller: Caller, project: str) -> bool:
    return project == DEFAULT_PROJECT or ProjectId(project) in caller.projects


def _check_author(caller: Caller, known: Action, place: _TemplateLocation) -> None:
    author = _author(known)
    if caller.role < Role.OPERATOR and caller.user != author:
        raise Forbidden(f"{place} is of {author}, who alone may change it, besides operators; choose another name")


def _author(action: Action) -> str:
    """Who saved it first; of a record of an earlier version, who saved it last."""
    return action.facts.get("author", action.facts["by"])


def _view(action: Action) -> SessionTemplateView:
    facts = action.facts
    return SessionTemplateView(
        project=facts["project"],
        name=facts["name"],
        fields=facts["fields"],
        author=_author(action),
        saved_by=facts["by"],
        saved_at=moment(int(facts["saved_us"])),
    )
