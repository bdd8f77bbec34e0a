"""Event files as TensorBoard's own reader sees them."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tensorboard.backend.event_processing.event_accumulator import (
    STORE_EVERYTHING_SIZE_GUIDANCE,
    EventAccumulator,
)
from tensorboard.plugins.hparams import metadata

from ledger.events import Recorded
from projections.tensorboard import Curves
from projections.tensorboard.records import event_file
from tests import make

Point = tuple[int, float]


def source_of(history: list[Recorded]) -> make.History:
    source = make.History()
    source.events = history
    return source


def written(
    folder: Path,
    history: list[Recorded],
    *,
    run: str = make.RUN,
    attempt: int | None = None,
    stops: Iterable[int] = (),
) -> Path:
    """The files of a run in ``folder``, asked for anew at each position of ``stops``."""
    curves, after = Curves(source_of(history)), 0
    folder.mkdir(parents=True, exist_ok=True)
    for upto in (*stops, history[-1].position):
        for page in curves.pages(run, attempt=attempt, after=after, upto=upto):
            (folder / f"events.out.tfevents.{page.position:019d}").write_bytes(
                event_file(page.summaries)
            )
        after = upto
    return folder


def reader(folder: Path) -> EventAccumulator:
    """TensorBoard's reader, which has read everything and thinned nothing out."""
    return EventAccumulator(str(folder), STORE_EVERYTHING_SIZE_GUIDANCE).Reload()


def curves(folder: Path) -> dict[str, list[Point]]:
    """Steps and values of every curve, as what is current is read."""
    found = reader(folder)
    return {
        tag: [(each.step, each.value) for each in found.Scalars(tag)]
        for tag in found.Tags()["scalars"]
    }


def hyperparameters(folder: Path) -> dict[str, Any]:
    """The values of the row in the HParams dashboard."""
    content = reader(folder).PluginTagToContent("hparams")[metadata.SESSION_START_INFO_TAG]
    started = metadata.parse_session_start_info_plugin_data(content)
    return {
        name: getattr(value, value.WhichOneof("kind")) for name, value in started.hparams.items()
    }


def status(folder: Path) -> int | None:
    """How that row ended; None while it goes on."""
    contents = reader(folder).PluginTagToContent("hparams")
    content = contents.get(metadata.SESSION_END_INFO_TAG)
    if content is None:
        return None
    found: int = metadata.parse_session_end_info_plugin_data(content).status
    return found
