"""Tokens of people and programs: made, listed, revoked; and whose token it is that one has."""

from typing import Annotated, Any

from fastapi import APIRouter, Request
from pydantic import BaseModel, ConfigDict, Field
from pydantic.alias_generators import to_camel

from api.access import Principal, asker_of
from api.routes.service import service_of
from api.service import Service
from api.wire import Json
from ledger.events import RoleName
from ledger.tokens import Token

router = APIRouter(prefix="/v1")
LONGEST_SECONDS = 10 * 366 * 86_400  # ten years
Seconds = Annotated[float, Field(ge=1, le=LONGEST_SECONDS)]


class Creation(BaseModel):
    """What token is wanted."""

    model_config = ConfigDict(extra="forbid", alias_generator=to_camel)

    name: str = Field(
        max_length=1_000,
        description="Who it is for, or what: letters, digits, dots, dashes and underscores. "
        "Its principal is `user/` and this.",
    )
    role: RoleName = Field(description="`reader`, `submitter` or `operator`.")
    expires_seconds: Seconds | None = Field(
        None, description="How long it counts; null: until it is revoked."
    )


@router.post("/tokens", status_code=201)
def create_token(body: Creation, request: Request, principal: Principal) -> Json:
    """Make a token. Only this answer has it; what is kept of it is its digest."""
    service = service_of(request)
    token, secret = service.tokens.create(
        body.name, body.role, seconds=body.expires_seconds, principal=principal
    )
    answer = _told(service, token) | {"token": secret}
    return Json(answer, 201, {"Cache-Control": "no-store"})


@router.get("/tokens")
def list_tokens(request: Request, _: Principal) -> Json:
    """Every token that was ever made, oldest first, with who made and who revoked it."""
    service = service_of(request)
    return Json({"tokens": [_told(service, each) for each in service.tokens.all()]})


@router.post("/tokens/{token}:revoke")
def revoke_token(token: str, request: Request, principal: Principal) -> Json:
    """Have a token count no more; it is named by its id, or by its name."""
    service = service_of(request)
    return Json(_told(service, service.tokens.revoke(token, principal=principal)))


@router.get("/whoami")
def whoami(request: Request, _: Principal) -> Json:
    """Whose token it is that the request carries, and its role."""
    asker = asker_of(request)
    return Json(
        {
            "principal": asker.principal,
            "role": asker.role,
            "tokenId": asker.token and asker.token.token_id,
            "expiresAt": asker.token and asker.token.expires_at,
        }
    )


def _told(service: Service, token: Token) -> dict[str, Any]:
    return {
        "tokenId": token.token_id,
        "name": token.name,
        "principal": token.principal,
        "role": token.role,
        "status": service.tokens.status(token),
        "createdAt": token.created_at,
        "createdBy": token.created_by,
        "expiresAt": token.expires_at,
        "revokedAt": token.revoked_at,
        "revokedBy": token.revoked_by,
    }
