"""The application: routes over one service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI

from api import problems
from api.auth import OwnNames
from api.routes import events, metrics, reports, runs, server
from api.service import Service
from api.settings import Settings


def create_app(settings: Settings) -> FastAPI:
    """The server's application; its parts start and stop with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        service = Service(settings)
        app.state.service = service
        service.start()
        try:
            yield
        finally:
            service.stop()

    app = FastAPI(
        title="trainledger",
        version=version("trainledger"),
        lifespan=lifespan,
        openapi_url=None,  # nor its pages: they load scripts from elsewhere, and ask for no token
    )
    if settings.is_local:
        app.add_middleware(OwnNames)
    problems.install(app)
    for module in (runs, events, metrics, reports, server):
        app.include_router(module.router)
    return app
