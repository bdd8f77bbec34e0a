"""The server itself: is it alive, what is it, is its ledger true."""

from importlib.metadata import version

from fastapi import APIRouter, Request

from api.problems import NOT_READY, ProblemError
from api.routes.runs import Principal
from api.routes.service import service_of
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
    answer = {
        "version": version("trainledger"),
        "backend": "sqlite",
        "home": str(service.settings.home),
        "position": service.ledger.position(),
        "projections": {
            name: {"position": follower.position()} for name, follower in service.followers.items()
        },
        "devices": {"slots": service.pool.slots, "free": service.pool.free()},
        "ready": all(check["ok"] for check in checks),
        "checks": checks,
    }
    if not answer["ready"]:
        bad = ", ".join(check["name"] for check in checks if not check["ok"])
        raise ProblemError(NOT_READY, f"not ready: {bad}", more=answer)
    return Json(answer)


@router.post("/v1/audit")
def audit(request: Request, _: Principal) -> Json:
    """Check every chain of events, and the live projections against a replay."""
    return Json(service_of(request).verify())
