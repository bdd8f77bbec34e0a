"""Settings of the server: environment over ``trainledger.toml`` in its home over defaults."""

import os
from pathlib import Path
from typing import Literal, Self
from urllib.parse import urlsplit

from pydantic import ByteSize, Field, field_validator, model_validator
from pydantic_settings import (
    BaseSettings,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
    TomlConfigSettingsSource,
)

from engine.dispatch import gpus
from engine.runner.job import RANK_SECONDS

LOOPBACK = frozenset({"127.0.0.1", "::1", "localhost"})
CLIENT_NAMES = frozenset(
    {
        "TRAINLEDGER_URL",
        "TRAINLEDGER_TOKEN",
        "TRAINLEDGER_CONTEXT",
        "TRAINLEDGER_PLATFORM_PROJECT",
        "TRAINLEDGER_DISABLE_PROMPTS",
    }
)  # of the command line, which may share its environment with the server


def _devices_here() -> tuple[str, ...]:
    """One slot for each GPU that is found, else one for each CPU."""
    cpus = (f"cpu:{number}" for number in range(os.cpu_count() or 1))
    return tuple(gpu.slot for gpu in gpus.found()) or tuple(cpus)


class Settings(BaseSettings):
    """What a deployment may choose; a name that is not here is an error."""

    model_config = SettingsConfigDict(
        env_prefix="TRAINLEDGER_", env_ignore_empty=True, extra="forbid", frozen=True
    )

    home: Path = Field(
        default_factory=lambda: Path.home() / ".trainledger",
        description="Folder of the ledger, its projections and the attempts' files.",
    )
    host: str = Field(default="127.0.0.1", description="Address to listen on.")
    port: int = Field(
        default=0, ge=0, le=65535, description="Port; 0 takes the last one, or a free one."
    )
    devices: tuple[str, ...] = Field(
        default_factory=_devices_here,
        description="Device slots, for example cuda:0 or cpu:0; all that are found by default.",
    )
    preparations: int = Field(
        default=1,
        ge=1,
        description="How many runs have their rows prepared at the same time, before they claim "
        "devices; each preparation takes every core.",
    )
    rank_seconds: float = Field(
        default=RANK_SECONDS,
        gt=0,
        description="How long one rank of a run on several devices may keep the others waiting, "
        "until it counts as hung and the next attempt begins; rank 0 may take twelve times as long "
        "for what it does alone, such as saving.",
    )
    artifacts: str = Field(
        default="",
        description="URL of the folder of snapshots, of any kind that fsspec reads; by default the "
        "folder snapshots of the home.",
    )
    device_profile: str = Field(
        default="",
        description="Name of the devices in the price book, prices.toml of the home; by default "
        "cpu or gpu, by their kind.",
    )
    synchronous: Literal["FULL", "NORMAL"] = Field(
        default="FULL",
        description="FULL syncs each commit; NORMAL may lose the newest ones when power fails.",
    )
    seal_events: int = Field(
        default=10_000, ge=1, description="Seal the ledger whenever so many events came."
    )
    seal_minutes: float = Field(
        default=10.0, gt=0, description="Seal the ledger so many minutes after something came."
    )
    sql_seconds: float = Field(
        default=30.0, gt=0, description="How long one SQL query may take; then it is killed."
    )
    sql_memory: ByteSize = Field(
        default=ByteSize(2**30),
        ge=2**26,
        validate_default=True,
        description="How much memory one SQL query may have, for example 512MiB.",
    )
    sql_workers: int = Field(
        default=2, ge=1, le=64, description="How many SQL queries run at the same time."
    )
    allow_command_engine: bool = Field(
        default=False,
        description="Let plans bring their own program although others than this machine may ask, "
        "and although a submitter asks, who is no operator.",
    )
    grafana_url: str = Field(
        default="",
        description="Where Grafana is, for links to runs ([grafana.md](grafana.md)); by default "
        "there are none.",
    )
    grafana_dashboards: dict[str, str] = Field(
        default={},
        description="The uid of the training dashboard of each platform project, for example "
        '{"research": "ab12cd"}; of others no links are made.',
    )
    grafana_minutes: int = Field(
        default=60, ge=1, le=10_080, description="How many minutes a link to Grafana lets in."
    )

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,  # noqa: ARG003  the library's signature
        file_secret_settings: PydanticBaseSettingsSource,  # noqa: ARG003
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Read the environment first, then the file in the home that it names."""
        home = os.environ.get("TRAINLEDGER_HOME") or "~/.trainledger"
        file = Path(home).expanduser() / "trainledger.toml"
        return (
            init_settings,
            env_settings,
            TomlConfigSettingsSource(settings_cls, toml_file=file),
        )

    @field_validator("home")
    @classmethod
    def _home_is_a_place(cls, home: Path) -> Path:
        return home.expanduser()  # a service file has no shell that would do it

    @field_validator("grafana_url")
    @classmethod
    def _grafana_is_an_address(cls, url: str) -> str:
        parts = urlsplit(url)
        is_address = parts.scheme in ("http", "https") and parts.hostname
        if url and (not is_address or parts.query or parts.fragment):
            raise ValueError("expected http:// or https:// and a host, and no ? or #")
        return url

    @model_validator(mode="after")
    def _names_are_known(self) -> Self:
        known = {f"TRAINLEDGER_{name.upper()}" for name in type(self).model_fields} | CLIENT_NAMES
        for name in os.environ:
            if name.startswith("TRAINLEDGER_") and name not in known:
                raise ValueError(f"{name} is no setting; known are {', '.join(sorted(known))}")
        return self

    @property
    def is_local(self) -> bool:
        """Whether only this machine can reach the server."""
        return self.host in LOOPBACK
