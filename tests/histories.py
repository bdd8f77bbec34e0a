"""Small files as other trackers write them, and what the product makes of them."""

import io
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.summary.writer.record_writer import RecordWriter

from tests import apis
from tests.apis import Api
from tests.cli_server import here

Json = dict[str, Any]
STARTED = 1_700_000_000.0  # seconds since 1970: 2023-11-14 22:13:20 UTC


class Importer:
    """A real server, and the command line that imports into it."""

    def __init__(self, api: Api) -> None:
        self.api = api

    def call(self, *words: str | Path, code: int = 0) -> Any:
        """What a command did."""
        url, token = str(self.api.client.base_url), self.api.service.token
        done = here(*map(str, words), url=url, TRAINLEDGER_TOKEN=token, COLUMNS="80")
        assert done.returncode == code, done.stderr
        return done

    def run(self, kind: str, path: Path, *options: str) -> Json:
        """What an import answers."""
        said = self.call("import", kind, path, *options, "-o", "json").stdout
        return dict(apis.loads(said))

    def record(self, answer: Json) -> Json:
        """The record of what was imported."""
        return dict(self.api.get(f"/v1/runs/{answer['runId']}"))

    def steps(self, answer: Json) -> dict[int, Json]:
        """What was measured of each step."""
        rows = self.metrics(answer)["steps"]
        return {each["step"]: each["measured"] for each in rows}

    def metrics(self, answer: Json) -> Json:
        """Steps and validations."""
        path = f"/v1/runs/{answer['runId']}/metrics"
        return dict(self.api.get(path))


@contextmanager
def importer(home: Path) -> Iterator[Importer]:
    """A server that listens, for one test or for several."""
    with apis.listening(home) as api:
        yield Importer(api)


def state(folder: Path, *rows: Mapping[str, Any], **facts: Any) -> Path:
    """A trainer_state.json; numbers that are not finite stand there as Python writes them."""
    whole = {"global_step": 4, "max_steps": 4, "num_train_epochs": 1, "log_history": list(rows)}
    return written(folder / "trainer_state.json", json.dumps(whole | facts))


def log(folder: Path, *rows: Mapping[str, Any]) -> Path:
    """A trainer_log.jsonl."""
    return written(folder / "trainer_log.jsonl", "".join(f"{json.dumps(row)}\n" for row in rows))


def written(file: Path, text: str) -> Path:
    """A file with this text."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    return file


def scalars(*said: tuple[int, str, float], began: float = STARTED) -> bytes:
    """An event file with these numbers, a second apart."""
    buffer = io.BytesIO()
    writer = RecordWriter(buffer)
    writer.write(Event(wall_time=began, file_version="brain.Event:2").SerializeToString())
    for place, (step, name, value) in enumerate(said, start=1):
        event = Event(wall_time=began + place, step=step)
        event.summary.value.add(tag=name, simple_value=value)
        writer.write(event.SerializeToString())
    return buffer.getvalue()
