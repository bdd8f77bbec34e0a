"""The application: routes over one service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import FastAPI
from starlette.middleware.trustedhost import TrustedHostMiddleware

from api import problems
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

    app = FastAPI(title="trainledger", version=version("trainledger"), lifespan=lifespan)
    if settings.is_local:  # another name in Host is a page that was led here by a false DNS answer
        app.add_middleware(
            TrustedHostMiddleware,
            allowed_hosts=["127.0.0.1", "localhost", "[", "testserver"],
        )
    problems.install(app)
    for module in (runs, events, metrics, reports, server):
        app.include_router(module.router)
    return app
