"""Administration: all acts of operators in one place, as the API asks for them."""

from aliquot.service.agent_administration import AgentAdministration
from aliquot.service.auditing.auditing import Auditing
from aliquot.service.copying import Copying
from aliquot.service.notices.office import NoticeOffice
from aliquot.service.orchestrating import Orchestrating
from aliquot.service.policies import Policies
from aliquot.service.quotas import Quotas
from aliquot.service.reaper.examination import Examination


class Administration(
    Policies, Orchestrating, Quotas, AgentAdministration, Examination, Copying, Auditing, NoticeOffice
):
    """The policy, quotas and agents, whether all of it agrees, what has happened, and who is told."""
