"""The server itself: is it alive, and what is it."""

from importlib.metadata import version

from fastapi import APIRouter, Request

from api.access import Principal
from api.problems import NOT_READY, ProblemError
from api.routes.service import service_of
from api.service import ADVISORY
from api.wire import Json

router = APIRouter()


@router.get("/healthz")
async def health() -> Json:
    """Whether the process answers at all."""
    return Json({"ok": True})


@router.get("/v1/info")
def info(request: Request, _: Principal) -> Json:
    """What this server is, where its parts are, and whether each of them works."""
    service = service_of(request)
    checks = service.checks()
    missing = [each["name"] for each in checks if not each["ok"] and each["name"] not in ADVISORY]
    answer = {
        "version": version("trainledger"),
        "backend": "sqlite",
        "home": str(service.settings.home),
        "position": service.ledger.position(),
        "projections": {
            name: {"position": follower.position()} for name, follower in service.followers.items()
        },
        "devices": {"slots": service.pool.slots, "free": service.pool.free()},
        "ready": not missing,
        "checks": checks,
    }
    if missing:
        raise ProblemError(NOT_READY, f"not ready: {', '.join(missing)}", more=answer)
    return Json(answer)
