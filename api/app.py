"""The application: routes over one service."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.metadata import version

from fastapi import Depends, FastAPI

from api import problems
from api.access import require
from api.auth import OwnNames
from api.queries import refuse_unknown_names
from api.routes import (
    annotations,
    audit,
    branches,
    capacity,
    compare,
    datasets,
    events,
    exchange,
    grafana,
    imports,
    logs,
    metrics,
    reports,
    rollouts,
    runs,
    server,
    settings_of_run,
    snapshots,
    sql,
    tensorboard,
    tokens,
)
from api.service import Service
from api.settings import Settings


def create_app(settings: Settings) -> FastAPI:
    """The server's application; its parts start and stop with it."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        app.openapi()  # made here, since threads that need it first would make it at once
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
        dependencies=[Depends(require), Depends(refuse_unknown_names)],
        openapi_url=None,  # nor its pages: they load scripts from elsewhere, and ask for no token
    )
    if settings.is_local:
        app.add_middleware(OwnNames)
    problems.install(app)
    for module in (
        runs,
        imports,
        annotations,
        settings_of_run,
        compare,
        branches,
        events,
        metrics,
        rollouts,
        logs,
        tensorboard,
        grafana,
        snapshots,
        datasets,
        reports,
        audit,
        exchange,
        sql,
        tokens,
        capacity,
        server,
    ):
        app.include_router(module.router)
    return app
