"""The service that answers a request."""

from fastapi import Request

from api.service import Service


def service_of(request: Request) -> Service:
    """The parts of the server that got ``request``."""
    service: Service = request.app.state.service
    return service
