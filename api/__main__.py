"""The server process: ``python -m api``.

It owns its home alone (a lock that dies with it), says in ``server.json`` where it listens, and
ends open streams before it stops, so that nobody who follows a run holds it up.
"""

import gc
import os
import socket
import sys
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import uvicorn
from fastapi import FastAPI
from pydantic import ValidationError
from pydantic_settings import SettingsError

from api.app import create_app
from api.home import own
from api.service import utc_now
from api.settings import Settings
from api.wire import dump

GRACE_SECONDS = 3  # for requests that are being answered when the server is told to stop
YOUNG_OBJECTS = 50_000  # that are made before the newest ones are looked through for garbage


class Server(uvicorn.Server):
    """A uvicorn server whose streams end as soon as a signal asks it to stop."""

    def __init__(self, app: FastAPI, config: uvicorn.Config) -> None:
        super().__init__(config)
        self._app = app

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Note the signal, and release those who wait for events."""
        service = getattr(self._app.state, "service", None)
        if service is not None:
            service.hub.stop()
        super().handle_exit(sig, frame)


def main() -> int:
    """Run the server of one home until a signal ends it; the exit status."""
    try:
        settings = Settings()
    except (ValidationError, SettingsError, tomllib.TOMLDecodeError) as error:
        sys.stderr.writelines(f"settings: {fault}\n" for fault in _faults(error))
        return 2
    # A wake-up of ours never takes the processor from a trainer on the same machine.
    os.sched_setscheduler(0, os.SCHED_BATCH, os.sched_param(0))
    settings.home.mkdir(mode=0o700, parents=True, exist_ok=True)
    # Modules stay, and events come by the thousand and are not in cycles: this seldom, looking for
    # garbage takes a fifth less of the time of a long history (measured 2026-11-30).
    gc.freeze()
    gc.set_threshold(YOUNG_OBJECTS, 10, 10)
    with own(settings.home) as taken:
        if taken:
            sys.stderr.write(f"another server works {taken}\n")
            return 4
        _serve(settings)
    return 0


def _faults(error: ValueError) -> list[str]:
    """One sentence for each setting that is wrong."""
    if isinstance(error, tomllib.TOMLDecodeError):
        return [f"trainledger.toml: {error}"]
    if isinstance(error, ValidationError):
        return [
            f"{'.'.join(map(str, each['loc']))}: {each['msg']}".removeprefix(": ").replace(
                "Value error, ", "", 1
            )
            for each in error.errors(include_url=False)
        ]
    return [f'{error}; a list is written as JSON, for example ["cuda:0", "cuda:1"]']


def _serve(settings: Settings) -> None:
    file = settings.home / "server.json"
    with _listen(settings, file) as listener:
        host, port = listener.getsockname()[:2]
        name = f"[{host}]" if ":" in host else host
        app = create_app(settings)
        config = uvicorn.Config(
            app,
            log_config=None,
            access_log=False,
            timeout_graceful_shutdown=GRACE_SECONDS,
            lifespan="on",
        )
        _announce(file, settings, f"http://{name}:{port}", app.version)
        Server(app, config).run(sockets=[listener])


def _announce(file: Path, settings: Settings, url: str, version: str) -> None:
    """Say where the server is; a runner whose server restarted finds it here."""
    fresh = file.with_name("server.json.new")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "wb") as out:
        out.write(
            dump(
                {
                    "pid": os.getpid(),
                    "url": url,
                    "home": str(settings.home.absolute()),
                    "startedAt": utc_now(),
                    "version": version,
                }
            )
        )
    fresh.replace(file)


@contextmanager
def _listen(settings: Settings, file: Path) -> Iterator[socket.socket]:
    """A listening socket: at the port that is set, else the last one, else a free one."""
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    # asyncio turns Nagle's algorithm off only where the protocol is named; with it, an answer on a
    # connection that is kept open takes 40 ms longer (measured 2026-11-29).
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    with listener:
        for port in dict.fromkeys((settings.port or _last_port(file), settings.port)):
            try:
                listener.bind((settings.host, port))
                break
            except OSError:
                if settings.port or not port:
                    raise
        listener.listen(512)
        yield listener


def _last_port(file: Path) -> int:
    """The port of the server that worked here before; 0 where that is not known."""
    try:
        return int(
            file.read_text("utf-8").split('"url":"http://')[1].split('"')[0].rpartition(":")[2]
        )
    except (OSError, ValueError, IndexError):
        return 0


if __name__ == "__main__":
    sys.exit(main())
