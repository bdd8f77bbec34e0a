"""Links to a run on the Grafana dashboard of a project; each carries a token that lets anybody in.

The token is a JWT that the key in ``grafana.key`` of the home has signed with ES256. Grafana takes
it from an address where ``url_login`` of its ``auth.jwt`` is on. Nothing of a link is kept.

Source: RFC 7519; Grafana, "Configure JWT authentication" and "Dashboard URL variables".
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from api.problems import GRAFANA_NOT_SET_UP, PLATFORM_PROJECT_NOT_FOUND, ProblemError
from api.settings import Settings
from projections.documents import timing

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

ISSUER = "trainledger"
ROLE = "Viewer"  # the least of Grafana's roles
ALGORITHM = "ES256"
INSTALL = "install trainledger[grafana] where the server runs, and start it again"


class Link(NamedTuple):
    """An address, and until when whoever has it is let in."""

    url: str
    expires_at: datetime


@dataclass(frozen=True)
class Grafana:
    """The Grafana of a deployment, as its settings have it."""

    settings: Settings
    key: Path
    clock: Callable[[], datetime]

    def link(self, record: dict[str, Any], *, project: str, attempt: int | None) -> Link:
        """A link to the run of this record on the dashboard of a platform project.

        Args:
            record: of the run, as it is now.
            project: the platform project.
            attempt: that the dashboard shows; None leaves it to the dashboard.

        Raises:
            ProblemError: the server knows no such dashboard, or cannot sign.
        """
        dashboard, now = self._dashboard(project), self.clock().replace(microsecond=0)
        expires_at = now + timedelta(minutes=self.settings.grafana_minutes)
        query = {
            **_times(record["timing"]),
            "var-project": project,
            "var-run": record["runId"],
            **({} if attempt is None else {"var-attempt": str(attempt)}),
            "auth_token": self._token(project, now, expires_at),
        }
        place = f"{self.settings.grafana_url.rstrip('/')}/d/{quote(dashboard, safe='')}"
        return Link(f"{place}?{urlencode(query)}", expires_at)

    def _dashboard(self, project: str) -> str:
        """The uid of the dashboard of a platform project.

        Raises:
            ProblemError: no Grafana is set up, or none of its dashboards is this project's.
        """
        for setting in ("grafana_url", "grafana_dashboards"):
            if not getattr(self.settings, setting):
                raise ProblemError(
                    GRAFANA_NOT_SET_UP,
                    f"this server makes no links to Grafana: its setting {setting} is not set",
                )
        known = self.settings.grafana_dashboards
        if project not in known:
            raise ProblemError(
                PLATFORM_PROJECT_NOT_FOUND,
                f"the platform project {project[:80]!r} has no dashboard here; there are "
                f"{', '.join(sorted(known))}",
            )
        return known[project]

    def _token(self, project: str, now: datetime, expires_at: datetime) -> str:
        """A token with which its bearer is the viewer of a platform project, and nobody else."""
        try:
            import jwt  # noqa: PLC0415 (an extra)
        except ModuleNotFoundError:
            raise _missing() from None
        claims = {
            "iss": ISSUER,
            "sub": f"{ISSUER}-{project}",  # an account of its own, and nobody's login
            "iat": now,
            "exp": expires_at,
            "project": project,
            "role": ROLE,
        }
        return jwt.encode(claims, self._private_key(), algorithm=ALGORITHM)

    def _private_key(self) -> "EllipticCurvePrivateKey":
        """The key that signs.

        Raises:
            ProblemError: there is none, or one of another kind.
        """
        try:
            from cryptography.hazmat.primitives.asymmetric import ec  # noqa: PLC0415 (an extra)
            from cryptography.hazmat.primitives.serialization import (  # noqa: PLC0415
                load_pem_private_key,
            )
        except ModuleNotFoundError:
            raise _missing() from None
        try:
            found = load_pem_private_key(self.key.read_bytes(), password=None)
        except FileNotFoundError:
            raise ProblemError(
                GRAFANA_NOT_SET_UP, f"the file {self.key.name} of the server's home is not there"
            ) from None
        except (OSError, TypeError, ValueError):  # not readable, with a password, no key at all
            found = None
        if isinstance(found, ec.EllipticCurvePrivateKey) and isinstance(found.curve, ec.SECP256R1):
            return found
        raise ProblemError(
            GRAFANA_NOT_SET_UP,
            f"the file {self.key.name} of the server's home holds no private key of the curve "
            "P-256 without a password",
        )


def _missing() -> ProblemError:
    return ProblemError(
        GRAFANA_NOT_SET_UP, "the package PyJWT is not installed beside the server", INSTALL
    )


def _times(told: dict[str, Any]) -> dict[str, str]:
    """From the start of a run to its end, or to now; nothing of one whose history has no times."""
    started, ended = told["startedAt"], told["endedAt"]
    if started is None:
        return {}
    return {"from": _millis(started), "to": "now" if ended is None else _millis(ended)}


def _millis(moment: str) -> str:
    return str(timing.millis(datetime.fromisoformat(moment)))
