"""Settings of the server and its agents, validated at start.

Sources in the order of precedence: flags, the environment (`ALIQUOT_*`), `aliquot.toml`, defaults.
"""

import os
import socket
import tomllib
from collections.abc import Collection, Iterator
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import AliasChoices, Field, ModelWrapValidatorHandler, ValidationError, field_validator, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError
from pydantic_settings import (
    BaseSettings,
    NoDecode,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    SettingsError,
    TomlConfigSettingsSource,
)

from aliquot.api.metrics.settings import MeasuringSettings
from aliquot.api.oidc.settings import OidcSettings
from aliquot.delivery.receivers import NoticeSettings
from aliquot.errors import ConfigurationError
from aliquot.execution.agent.gpu_memory import MemoryPolicy
from aliquot.execution.agent.isolation.settings import ConfinementSettings
from aliquot.execution.devices.node import DemoSettings
from aliquot.execution.devices.partitioning import AgentTable, DevicesTable, Division, ResourceTable
from aliquot.execution.devices.tables import as_detail
from aliquot.execution.settings import KeepingSettings, NodeSettings
from aliquot.execution.settings import default_data_folder as default_data_folder
from aliquot.service.access import Trust
from aliquot.service.sessions.command_checks import CommandCheckSettings
from aliquot.service.setting_errors import Seconds, given_variable, kebab, not_json, not_text, setting_named, wrong
from aliquot.store.secrets.keys import SecretSettings
from aliquot.store.timeseries.tiers import HistorySettings
from aliquot_schema.deprecation import Deprecation
from aliquot_schema.orchestration import OperatingMode

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
ANYWHERE = frozenset({"0.0.0.0", "::"})
FILE_VARIABLE = "ALIQUOT_CONFIG"
APP_PORTS_MAX: Final = 256
DEPRECATED: Final = (Deprecation(old="respect-external", new="foreign-usage", removed_in="0.3"),)
"""Settings whose old names are aliases of the new ones."""
_RESPECTED: Final = dict.fromkeys(("true", "1", "yes", "on"), "avoid") | dict.fromkeys(
    ("false", "0", "no", "off"), "ignore"
)


class Settings(
    CommandCheckSettings,
    SecretSettings,
    ConfinementSettings,
    DemoSettings,
    HistorySettings,
    KeepingSettings,
    MeasuringSettings,
    NodeSettings,
    NoticeSettings,
    OidcSettings,
):
    """All settings. Names are kebab-case in `aliquot.toml`, `ALIQUOT_UPPER_SNAKE` in the environment."""

    model_config = SettingsConfigDict(
        env_prefix="ALIQUOT_", extra="forbid", frozen=True, alias_generator=kebab, populate_by_name=True
    )

    host: str = Field("127.0.0.1", description="The address to listen on; beyond loopback only with TLS or a proxy.")
    port: int = Field(8090, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    tls_certificate: Path | None = Field(
        None, description="The server's certificate, followed by its chain of authorities, in PEM."
    )
    tls_key: Path | None = Field(None, description="The private key of the certificate, in PEM.")
    behind_proxy: bool = Field(
        False, description="Only a proxy that does TLS reaches the port; its X-Forwarded-* headers are trusted."
    )
    single_trust_domain: bool = Field(
        False, description="All users who may submit trust each other: their jobs may share a Unix account."
    )
    data_folder: Path = Field(
        default_factory=default_data_folder, description="The folder of state, token and job files."
    )
    database: str | None = Field(
        None, description="A database URL, postgresql+asyncpg://...; by default SQLite in the data folder."
    )
    address: str | None = Field(
        None,
        description="The URL of this server for users, agents and other servers, like https://host:8090; "
        "by default the address it listens on.",
    )
    state_export: Path | None = Field(
        None, description="A folder; every 30 seconds the server writes the state of the cluster there, as JSON files."
    )
    accelerators: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Files that describe mock accelerators, used instead of the real ones; one agent each."
    )
    reserved_cpu: int = Field(0, ge=0, description="CPUs of this host that jobs never get.")
    reserved_mem: str = Field("512m", description="Memory of this host that jobs never get, like 512m or 2g.")
    foreign_usage: Literal["avoid", "ignore"] = Field(
        "avoid",
        validation_alias=AliasChoices(
            "foreign-usage",
            "foreign_usage",
            "ALIQUOT_FOREIGN_USAGE",
            "respect-external",
            "respect_external",
            "ALIQUOT_RESPECT_EXTERNAL",
        ),
        description="Accelerators in use by processes that Aliquot did not start: `avoid` gives them to no new job, "
        "`ignore` does.",
    )
    forecasts: bool = Field(True, description="Whether the leading server forecasts when waiting sessions start.")
    local_agents: bool = Field(True, description="Whether this server runs the agents of its own host.")
    executor: Literal["local", "ray"] = Field(
        "local", description="Where agents run: in this process and dialling in, or on the nodes of a Ray cluster."
    )
    ray_head: str | None = Field(
        None,
        validation_alias=AliasChoices("ray-head", "ray_head", "ALIQUOT_RAY_HEAD", "RESEARCH_AGENT_RAY_HEAD_NODE"),
        description="HOST:PORT of the head of the Ray cluster.",
    )
    ray_token_file: Path | None = Field(None, description="The file with Ray's token; by default Ray's own location.")
    resource: Annotated[ResourceTable, NoDecode] = Field(
        ResourceTable(), description="How the devices of this host are divided among its agents."
    )
    agents: Annotated[tuple[AgentTable, ...], NoDecode] = Field((), description="The agents of this host, by name.")
    devices: Annotated[DevicesTable, NoDecode] = Field(
        DevicesTable(), description="Devices of this host that Aliquot manages, and devices that it excludes."
    )
    job_user: str | None = Field(None, description="The Unix account that jobs run as; needs a server run by root.")
    allow_root_jobs: bool = Field(False, description="Let jobs run as root.")
    agent_address: str | None = Field(
        None,
        description="The address of this process's agents for other nodes; by default that of the default route.",
    )
    rendezvous_ports: str | None = Field(
        None, description="Ports of this host for MASTER_PORT of gangs, by default 29500-30499."
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Host names, besides loopback, that requests may be addressed to."
    )
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (),
        description="Web origins, besides the server's own, whose pages may send requests with a key and read the "
        "responses, like http://localhost:5173.",
    )
    grace_s: Seconds = Field(10.0, gt=0, le=3600, description="Seconds from SIGTERM to SIGKILL when a job is stopped.")
    readings_interval_s: Seconds = Field(2.0, gt=0.05, le=3600, description="Seconds between device measurements.")
    device_access: Literal["auto", "env"] = Field(
        "auto",
        description="How jobs are kept off other jobs' GPUs: by the kernel where possible, or by variables only.",
    )
    gpu_memory_policy: MemoryPolicy = Field(
        MemoryPolicy.FLAG, description="The reaction to jobs that use more of a GPU's memory than their share."
    )
    agent_beat_s: Seconds = Field(
        2.0,
        gt=0.01,
        le=60,
        description="Seconds between heartbeats of an agent that dials in, more with 1,000 agents; 3 missed = suspect.",
    )
    agent_lost_s: Seconds = Field(
        30.0, gt=0.05, le=86_400, description="Seconds without a heartbeat after which an agent is lost."
    )
    mode: OperatingMode = Field(
        OperatingMode.ENFORCE,
        description="observe and advise start and stop nothing: they record who uses which GPU. enforce schedules.",
    )
    orchestration_enabled: bool = Field(
        True,
        validation_alias=AliasChoices(
            "orchestration-enabled",
            "orchestration_enabled",
            "ALIQUOT_ORCHESTRATION_ENABLED",
            "RESEARCH_AGENT_GPU_ORCHESTRATION_ENABLED",
        ),
        description="Whether a new cluster schedules; false starts it paused, until an operator starts the scheduler.",
    )
    scheduling_policy: str | None = Field(
        None,
        validation_alias=AliasChoices(
            "scheduling-policy",
            "scheduling_policy",
            "ALIQUOT_SCHEDULING_POLICY",
            "RESEARCH_AGENT_SCHEDULING_POLICY",
        ),
        description="The order of a new cluster: fair_share, relative_age, priority, fcfs, sjf, srtf or las.",
    )
    max_queue_size: int = Field(
        100_000,
        ge=1,
        validation_alias=AliasChoices(
            "max-queue-size", "max_queue_size", "ALIQUOT_MAX_QUEUE_SIZE", "RESEARCH_AGENT_MAX_QUEUE_SIZE"
        ),
        description="Pending tasks allowed; a job array counts as its length.",
    )
    max_queue_user_pct: int = Field(
        50,
        ge=1,
        le=100,
        description="Percent of max-queue-size that one user may fill while other users have sessions pending.",
    )
    submissions_per_minute: int = Field(
        3_000, ge=0, description="Submissions per user and minute; an array counts as one, 0 is no limit."
    )
    query_cost_per_minute: int = Field(
        1_000_000, ge=0, description="Total query cost per user and minute; 0 is no limit."
    )
    introspection: bool = Field(
        True, description="Whether the GraphQL schema can be queried, and errors suggest names; GraphiQL needs it."
    )
    apps_domain: str | None = Field(
        None, pattern=r"^[\w-]+(\.[\w-]+)+$", description="Domain of web services of sessions, like apps.example.org."
    )
    apps_ports: str | None = Field(
        None,
        pattern=r"^\d{1,5}-\d{1,5}$",
        description="Ports of web services of sessions, like 8100-8131, for servers without apps-domain.",
    )
    record_terminals: bool = Field(False, description="Whether the output of terminals is recorded on their nodes.")
    openapi_open: bool = Field(False, description="Whether /openapi.json, the description of REST, needs no key.")

    @property
    def app_ports(self) -> range:
        """The ports of `apps_ports`. Raises ConfigurationError."""
        first, last = map(int, (self.apps_ports or "1-0").split("-"))
        if first < 1 or last > 65_535 or not 0 <= last - first + 1 <= APP_PORTS_MAX:
            raise ConfigurationError(f"apps-ports: give at most {APP_PORTS_MAX} ports, like 8100-8131")
        return range(first, last + 1)

    @property
    def division(self) -> Division:
        """How this host is divided among agents.

        Raises:
            ConfigurationError: the tables contradict each other.
        """
        tables = {"resource": self.resource, "agents": list(self.agents), "devices": self.devices}
        return Division.checked(tables, source=os.environ.get(FILE_VARIABLE, "settings"))

    @property
    def archive_path(self) -> Path:
        """The folder of the archives."""
        return self.archive_folder or self.data_folder / "server" / "archive"

    @property
    def names(self) -> tuple[str, ...]:
        """The host names that requests may be addressed to, without ports."""
        own = () if self.host in LOOPBACK else (self.host, socket.gethostname())
        public = () if self.address is None else (urlsplit(self.address).hostname or "",)
        return (*sorted(LOOPBACK), *own, *public, *self.allowed_hosts)

    @property
    def trust(self) -> Trust:
        """How the jobs of several users are isolated; a server without agents leaves that to the agents' hosts."""
        if self.single_trust_domain or self.demo:
            return Trust.SHARED
        return Trust.SEPARATE if os.geteuid() == 0 or not self.local_agents else Trust.ALONE

    @property
    def own_address(self) -> str:
        """The URL of this server, without a path."""
        if self.address is not None:
            return self.address.rstrip("/")
        name = socket.gethostname() if self.host in ANYWHERE else self.host
        host = f"[{name}]" if ":" in name else name
        return f"{'http' if self.tls_certificate is None else 'https'}://{host}:{self.port}"

    @model_validator(mode="wrap")
    @classmethod
    def _with_all_problems(cls, given: dict[str, Any], check: ModelWrapValidatorHandler[Self]) -> Self:
        """Report all problems together, not only the first one."""
        problems: list[InitErrorDetails] = []
        faulty: set[str] = set()
        try:
            settings = check(given)
        except ValidationError as error:
            problems = [as_detail(problem) for problem in error.errors()]
            faulty = {setting_named(str(problem["loc"][0]), Settings.model_fields) for problem in error.errors()}
            # A table with a wrong name is not missing under the right one.
            faulty |= {f"{name}s" for name in faulty & _TABLES.keys()}
            try:
                settings = check(
                    {
                        name: value
                        for name, value in given.items()
                        if setting_named(name, Settings.model_fields) not in faulty
                    }
                )
            except ValidationError:
                raise error from None
        # A contradiction with a default that replaces a wrong value is none.
        found = [problem for about, problem in settings._contradictions() if not about & faulty]
        problems += [InitErrorDetails(type=problem, input=None) for problem in found]
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return settings

    def _contradictions(self) -> Iterator[tuple[set[str], PydanticCustomError]]:
        """Settings that exclude each other, and settings that would leave the server open; each with its fields."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            yield {"tls_certificate", "tls_key"}, wrong("tls-certificate and tls-key belong together; give both")
        try:
            _ = self.division
        except ConfigurationError as error:
            yield {"resource", "agents", "devices"}, wrong(str(error))
        if self.ray_head is not None and self.executor == "local" and "executor" in self.model_fields_set:
            name = given_variable("ray_head", Settings.model_fields) or "ray-head"
            words = f"{name}: it is given, but executor is local; give executor ray, or leave {name} out"
            yield {"ray_head", "executor"}, wrong(words)
        if self.metrics_open and (self.host not in LOOPBACK or self.behind_proxy):
            words = "metrics-open: this server is reachable from other machines; give a metrics-token-file instead"
            yield {"metrics_open", "host", "behind_proxy"}, wrong(words)
        if self.host in LOOPBACK:
            return
        beyond = f"host: {self.host} can be reached from other machines"
        if self.tls_certificate is None and not self.behind_proxy:
            words = (
                f"{beyond}, and traffic would not be encrypted; give --tls-certificate and --tls-key, or "
                "--behind-proxy where a proxy does TLS and is the only one to reach the port, or listen on 127.0.0.1"
            )
            yield {"host", "tls_certificate", "behind_proxy"}, wrong(words)
        if not self.single_trust_domain and self.local_agents and os.geteuid() != 0:
            words = (
                f"{beyond}, and all users' jobs would run as the server's own account; start it as root, so that "
                "each user's jobs run as an account of their own, or with --no-local-agents, or state with "
                "--single-trust-domain that all users trust each other, or listen on 127.0.0.1"
            )
            yield {"host", "single_trust_domain", "local_agents"}, wrong(words)

    @field_validator("foreign_usage", mode="before")
    @classmethod
    def _foreign_usage(cls, value: object) -> object:
        """The values of the old name `respect-external`: true and false."""
        return _RESPECTED.get(str(value).casefold(), value)

    @field_validator("scheduling_policy")
    @classmethod
    def _policy_exists(cls, name: str | None) -> str | None:
        if name is None:
            return None
        # Imported here: agents read settings too, without NumPy.
        from aliquot.core.scheduler.ordering import ORDERS

        if name not in ORDERS:
            raise wrong(f"no policy is called {name}; there are {', '.join(sorted(ORDERS))}")
        return name

    @field_validator("accelerators", "allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """Split a list written with commas, as in the environment."""
        return tuple(filter(None, map(str.strip, value.split(",")))) if isinstance(value, str) else value

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003 # the signature is pydantic's
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Sources in the order of precedence: flags, the environment, the file named by `ALIQUOT_CONFIG`."""
        file = settings_file()
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        return (*sources, TomlConfigSettingsSource(settings_cls, file)) if file else sources


def settings_file() -> Path | None:
    """The settings file, which may hold a database password; None when none is used."""
    file = os.environ.get(FILE_VARIABLE)
    return Path(file).absolute() if file else None


def warn_of_deprecated_settings() -> None:
    """Warn of deprecated names in the environment and in the settings file, which can be read."""
    variables = {name.upper(): name for name in os.environ}
    file = settings_file()
    written = tomllib.loads(file.read_text(encoding="utf-8")) if file else {}
    for deprecation in DEPRECATED:
        variable, new = _variable(deprecation.old), _variable(deprecation.new)
        if variable in variables:
            Deprecation(old=variables[variable], new=new, removed_in=deprecation.removed_in).warn()
        if {deprecation.old, deprecation.old.replace("-", "_")} & written.keys():
            deprecation.warn(place=str(file))


def _variable(setting: str) -> str:
    return f"ALIQUOT_{setting.replace('-', '_').upper()}"


def read_settings(*, warns: bool = True, **flags: Any) -> Settings:
    """Read the settings from all sources; flags that are None, False or empty do not count.

    Args:
        warns: whether deprecated names are reported here; servers and agents report them in their log.
    Raises:
        ConfigurationError: a setting is wrong or unknown, or the file cannot be read; the message says which.
    """
    given = {name: value for name, value in flags.items() if value is not None and value is not False and value != ()}
    if wrong_name := not_text(given):
        raise ConfigurationError(f"{wrong_name}: its value is not text in UTF-8")
    file = settings_file()
    if file and not file.is_file():
        raise ConfigurationError(f"{FILE_VARIABLE}: there is no file {file}")
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise ConfigurationError("\n".join(_words(problem, flags=given) for problem in error.errors())) from None
    except SettingsError as error:
        raise ConfigurationError(not_json(str(error), Settings.model_fields)) from None
    except RecursionError:
        raise ConfigurationError(f"{FILE_VARIABLE}: {file} is nested too deeply; no setting needs that") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{FILE_VARIABLE}: {file} cannot be read: {error}") from None
    if warns:
        warn_of_deprecated_settings()
    if settings.ray_head is not None and "executor" not in settings.model_fields_set:
        return settings.model_copy(update={"executor": "ray"})
    return settings


_TABLES: Final = {"agent": "[[agents]], with [agents.resource.allocations]", "device": "[devices]"}
"""By wrong name, the table that is meant."""


def _words(problem: Any, *, flags: Collection[str]) -> str:
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{kebab(part)}" for part in problem["loc"])[1:]
    field = setting_named(str(problem["loc"][0]), Settings.model_fields) if problem["loc"] else ""
    variable = None if field in flags else given_variable(field, Settings.model_fields)
    if variable is not None:
        first = kebab(str(problem["loc"][0]))
        name = f"{variable}{name.removeprefix(first)}"
    if not name:
        return str(problem["msg"])
    if problem["type"] == "extra_forbidden":
        known = sorted(kebab(field) for field in Settings.model_fields)
        meant = _TABLES.get(name) or next(iter(get_close_matches(name, known, n=1)), None)
        what = f"did you mean {meant}?" if meant else f"there are {', '.join(known)}"
        return f"{name}: there is no such setting; {what}"
    is_form = problem["type"] == "string_pattern_mismatch" and len(problem["loc"]) == 1
    what = f"wrong form. {Settings.model_fields[field].description}" if is_form else problem["msg"]
    return f"{name}: {what}" if isinstance(problem["input"], dict) else f"{name}: {what} (got {problem['input']!r})"
