"""Settings: from flags, then the environment (`ALIQUOT_*`), then `aliquot.toml`, then defaults; checked at start."""

import os
import socket
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, Self
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
from aliquot.api.oidc.oidc_settings import OidcSettings
from aliquot.delivery.notice_settings import NoticeSettings
from aliquot.errors import ConfigurationError
from aliquot.execution.agent.confinement.settings import ConfinementSettings
from aliquot.execution.agent.default_folder import default_data_folder as default_data_folder
from aliquot.execution.agent.memory_watch import MemoryPolicy
from aliquot.execution.devices.division_tables import AgentTable, DevicesTable, Division, ResourceTable
from aliquot.execution.keeping_settings import KeepingSettings
from aliquot.service.accounts.trust import Trust
from aliquot.service.command_checks.settings import CommandCheckSettings
from aliquot.service.setting_errors import wrong
from aliquot.store.history.history_settings import HistorySettings
from aliquot.store.secrets.settings import SecretSettings

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
ANYWHERE = frozenset({"0.0.0.0", "::"})
FILE_VARIABLE = "ALIQUOT_CONFIG"


def kebab(name: str) -> str:
    """How a setting is written in the file and as a flag."""
    return name.replace("_", "-")


class Settings(
    CommandCheckSettings,
    SecretSettings,
    ConfinementSettings,
    HistorySettings,
    KeepingSettings,
    MeasuringSettings,
    NoticeSettings,
    OidcSettings,
):
    """Everything that can be set. Names are kebab-case in `aliquot.toml`, `ALIQUOT_UPPER_SNAKE` in the environment."""

    model_config = SettingsConfigDict(
        env_prefix="ALIQUOT_", extra="forbid", frozen=True, alias_generator=kebab, populate_by_name=True
    )

    host: str = Field("127.0.0.1", description="The address to listen on; beyond loopback only with TLS or a proxy.")
    port: int = Field(8090, ge=0, le=65535, description="The port to listen on; 0 takes a free one.")
    tls_certificate: Path | None = Field(
        None, description="The server's certificate with those that lead to its authority, in PEM."
    )
    tls_key: Path | None = Field(None, description="The private key of the certificate, in PEM.")
    behind_proxy: bool = Field(
        False, description="Only a proxy that does TLS reaches the port; what it says of clients is believed."
    )
    single_trust_domain: bool = Field(
        False, description="Everybody who may submit is trusted alike: jobs may share a Unix account."
    )
    data_folder: Path = Field(default_factory=default_data_folder, description="Where state, token and job files are.")
    database: str | None = Field(
        None, description="A database URL, postgresql+asyncpg://...; without one, SQLite in the data folder."
    )
    address: str | None = Field(
        None,
        description="Where people, agents and other servers reach this one, like https://host:8090; "
        "without one, as it listens.",
    )
    accelerators: Annotated[tuple[Path, ...], NoDecode] = Field(
        (), description="Files that describe mock accelerators, one agent each, instead of the real ones."
    )
    demo: bool = Field(False, description="Take the demo cluster even where there are real GPUs.")
    reserved_cpu: int = Field(0, ge=0, description="CPUs of this host that are not handed out.")
    reserved_mem: str = Field("512m", description="Memory of this host that is not handed out, like 512m or 2g.")
    respect_external: bool = Field(
        True, description="Whether accelerators that processes of others use are given to nobody."
    )
    local_agents: bool = Field(True, description="Whether this server runs agents itself, for the devices of its host.")
    executor: Literal["local", "ray"] = Field(
        "local", description="Where agents are: in this process, and dialling in; or on the nodes of a Ray cluster."
    )
    ray_head: str | None = Field(
        None,
        validation_alias=AliasChoices("ray-head", "ray_head", "ALIQUOT_RAY_HEAD", "RESEARCH_AGENT_RAY_HEAD_NODE"),
        description="HOST:PORT of the head of the Ray cluster.",
    )
    ray_token_file: Path | None = Field(
        None, description="The file with Ray's token; without one, where Ray looks by itself."
    )
    resource: Annotated[ResourceTable, NoDecode] = Field(
        ResourceTable(), description="How the devices of this host are divided among its agents."
    )
    agents: Annotated[tuple[AgentTable, ...], NoDecode] = Field((), description="The agents of this host, by name.")
    devices: Annotated[DevicesTable, NoDecode] = Field(
        DevicesTable(), description="Which devices of this host are Aliquot's, and which are kept out of it."
    )
    job_user: str | None = Field(None, description="The Unix account that jobs run as, when the server is root.")
    allow_root_jobs: bool = Field(False, description="Let jobs run as root.")
    agent_address: str | None = Field(
        None,
        description="Where other nodes reach the agents of this process; without one, where this host's way out is.",
    )
    rendezvous_ports: str | None = Field(
        None, description="Ports of this host where gangs meet, like 29500-30499, which are the usual ones."
    )
    allowed_hosts: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Host names, besides loopback, under which requests are answered."
    )
    allowed_origins: Annotated[tuple[str, ...], NoDecode] = Field(
        (), description="Sites, besides the server itself, whose pages may ask, like http://localhost:5173."
    )
    grace_s: float = Field(10.0, gt=0, le=3600, description="Seconds between the polite stop signal and the last one.")
    readings_interval_s: float = Field(2.0, gt=0.05, le=3600, description="Seconds between device measurements.")
    device_access: Literal["auto", "env"] = Field(
        "auto",
        description="What keeps jobs from GPUs that are not theirs: the kernel where it can, or variables alone.",
    )
    gpu_memory_policy: MemoryPolicy = Field(
        MemoryPolicy.FLAG, description="What is done about jobs that take more of a GPU's memory than their share."
    )
    agent_beat_s: float = Field(
        2.0,
        gt=0.01,
        le=60,
        description="Seconds between the beats of an agent that dials in; after three, it is suspect.",
    )
    agent_lost_s: float = Field(30.0, gt=0.05, le=86_400, description="Seconds of silence after which it is lost.")
    orchestration_enabled: bool = Field(
        True,
        validation_alias=AliasChoices(
            "orchestration-enabled",
            "orchestration_enabled",
            "ALIQUOT_ORCHESTRATION_ENABLED",
            "RESEARCH_AGENT_GPU_ORCHESTRATION_ENABLED",
        ),
        description="Whether a new cluster places what is submitted; false begins stopped, until somebody starts it.",
    )
    scheduling_policy: str | None = Field(
        None,
        validation_alias=AliasChoices(
            "scheduling-policy",
            "scheduling_policy",
            "ALIQUOT_SCHEDULING_POLICY",
            "RESEARCH_AGENT_SCHEDULING_POLICY",
        ),
        description="Who is next on a new cluster: fair_share, priority, fcfs, sjf or gang.",
    )
    max_queue_size: int = Field(
        100_000,
        ge=1,
        validation_alias=AliasChoices(
            "max-queue-size", "max_queue_size", "ALIQUOT_MAX_QUEUE_SIZE", "RESEARCH_AGENT_MAX_QUEUE_SIZE"
        ),
        description="Tasks that may wait; a job array counts its length.",
    )
    submissions_per_minute: int = Field(
        3_000, ge=0, description="Sessions that a user may submit in a minute; an array is one, 0 is no limit."
    )
    query_cost_per_minute: int = Field(
        1_000_000, ge=0, description="Cost of all queries that a user may ask in a minute; 0 is no limit."
    )
    introspection: bool = Field(
        True, description="Whether the schema is told to those who may ask; GraphiQL and generators of code need it."
    )

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
        """Where archives are."""
        return self.archive_folder or self.data_folder / "server" / "archive"

    @property
    def names(self) -> tuple[str, ...]:
        """The hosts under which requests are answered, without ports."""
        own = () if self.host in LOOPBACK else (self.host, socket.gethostname())
        told = () if self.address is None else (urlsplit(self.address).hostname or "",)
        return (*sorted(LOOPBACK), *own, *told, *self.allowed_hosts)

    @property
    def trust(self) -> Trust:
        """What keeps the jobs of several people apart; without agents here, theirs is to see to it."""
        if self.single_trust_domain:
            return Trust.SHARED
        return Trust.SEPARATE if os.geteuid() == 0 or not self.local_agents else Trust.ALONE

    @property
    def own_address(self) -> str:
        """Where this server is reached, as a URL without a path."""
        if self.address is not None:
            return self.address.rstrip("/")
        name = socket.gethostname() if self.host in ANYWHERE else self.host
        host = f"[{name}]" if ":" in name else name
        return f"{'http' if self.tls_certificate is None else 'https'}://{host}:{self.port}"

    @model_validator(mode="wrap")
    @classmethod
    def _all_at_once(cls, given: dict[str, Any], check: ModelWrapValidatorHandler[Self]) -> Self:
        """Whoever starts a server hears everything that is wrong, not one thing at a time."""
        problems: list[InitErrorDetails] = []
        try:
            settings = check(given)
        except ValidationError as error:
            problems = [_detail(problem) for problem in error.errors()]
            wrong = {_setting(str(problem["loc"][0])) for problem in error.errors()}
            try:
                settings = check({name: value for name, value in given.items() if _setting(name) not in wrong})
            except ValidationError:
                raise error from None
        problems += [InitErrorDetails(type=problem, input=None) for problem in settings._contradictions()]
        if problems:
            raise ValidationError.from_exception_data(cls.__name__, problems)
        return settings

    def _contradictions(self) -> Iterator[PydanticCustomError]:
        """What does not go together, or leaves a server open."""
        if (self.tls_certificate is None) != (self.tls_key is None):
            yield wrong("tls-certificate and tls-key belong together; give both")
        try:
            _ = self.division
        except ConfigurationError as error:
            yield wrong(str(error))
        if self.metrics_open and (self.host not in LOOPBACK or self.behind_proxy):
            yield wrong("metrics-open: others than this machine's users can come in; give a metrics-token-file instead")
        if self.host in LOOPBACK:
            return
        beyond = f"host: {self.host} can be reached from other machines"
        if self.tls_certificate is None and not self.behind_proxy:
            words = (
                f"{beyond}, and nothing would be encrypted; give --tls-certificate and --tls-key, or --behind-proxy "
                "where a proxy does TLS and nobody else reaches the port, or listen on 127.0.0.1"
            )
            yield wrong(words)
        if self.trust is Trust.ALONE:
            words = (
                f"{beyond}, and jobs of all who come in would run as the server itself does; start it as root, so that "
                "each user's jobs run as an account of their own, or with --no-local-agents, or say with "
                "--single-trust-domain that everybody is trusted alike, or listen on 127.0.0.1"
            )
            yield wrong(words)

    @field_validator("scheduling_policy")
    @classmethod
    def _policy_exists(cls, name: str | None) -> str | None:
        if name is None:
            return None
        # Imported here: an agent reads settings too, and does without NumPy.
        from aliquot.core.ordering import ORDERS

        if name not in ORDERS:
            raise wrong(f"there is no such policy; there are {', '.join(sorted(ORDERS))}")
        return name

    @field_validator("accelerators", "allowed_hosts", "allowed_origins", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        """In the environment a list is written with commas."""
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
        """Flags first, then the environment, then the file that `ALIQUOT_CONFIG` names."""
        file = os.environ.get(FILE_VARIABLE)
        sources: tuple[PydanticBaseSettingsSource, ...] = (init_settings, env_settings)
        return (*sources, TomlConfigSettingsSource(settings_cls, Path(file))) if file else sources


def read_settings(**flags: Any) -> Settings:
    """Settings from all sources; flags that are None or empty do not count.

    Raises:
        ConfigurationError: something is wrong, unknown or cannot be read; the message says what.
    """
    given = {name: value for name, value in flags.items() if value is not None and value is not False and value != ()}
    file = os.environ.get(FILE_VARIABLE)
    if file and not Path(file).is_file():
        raise ConfigurationError(f"{FILE_VARIABLE}: there is no file {file}")
    try:
        settings = Settings(**given)
    except ValidationError as error:
        raise ConfigurationError("\n".join(_words(problem) for problem in error.errors())) from None
    except SettingsError as error:
        raise ConfigurationError(f"{error}: in the environment a table is written as JSON") from None
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigurationError(f"{FILE_VARIABLE}: {file} cannot be read: {error}") from None
    return settings


def _detail(problem: Any) -> InitErrorDetails:
    """A problem that was found, as one to be told together with others."""
    type_ = PydanticCustomError(problem["type"], "{words}", {"words": problem["msg"]})
    return InitErrorDetails(type=type_, loc=problem["loc"], input=problem["input"])


def _setting(name: str) -> str:
    """The setting that is meant by one of its names, in the file or in the environment."""
    for field, info in Settings.model_fields.items():
        alias = info.validation_alias
        names = [str(choice) for choice in alias.choices] if isinstance(alias, AliasChoices) else [kebab(field)]
        if name.lower() in (field, *map(str.lower, names)):
            return field
    return name


def _words(problem: Any) -> str:
    name = "".join(f"[{part}]" if isinstance(part, int) else f".{kebab(part)}" for part in problem["loc"])[1:]
    if not name:
        return str(problem["msg"])
    if problem["type"] == "extra_forbidden":
        known = ", ".join(sorted(kebab(field) for field in Settings.model_fields))
        return f"{name}: there is no such setting; there are {known}"
    if isinstance(problem["input"], dict):
        return f"{name}: {problem['msg']}"
    return f"{name}: {problem['msg']} (got {problem['input']!r})"
