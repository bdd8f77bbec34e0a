"""Summaries as the bytes of an event file, with TensorBoard's own messages and writer.

Needs the package ``tensorboard``, which takes a second to load, and neither TensorFlow nor torch.
Event files one after the other are an event file.
"""

from collections.abc import Iterable
from functools import singledispatch
from io import BytesIO

from tensorboard.compat.proto.event_pb2 import Event, SessionLog, SourceMetadata
from tensorboard.compat.proto.summary_pb2 import Summary as Values
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import STATUS_FAILURE, STATUS_SUCCESS, STATUS_UNKNOWN
from tensorboard.plugins.hparams.plugin_data_pb2 import (
    HParamsPluginData,
    SessionEndInfo,
    SessionStartInfo,
)
from tensorboard.summary.writer.record_writer import RecordWriter

from projections.tensorboard.fold import (
    Hyperparameters,
    Scalars,
    SessionEnd,
    SessionStart,
    Summary,
)

VERSION = "brain.Event:2"  # since which readers purge at a session start, and only there
_STATUS = {"completed": STATUS_SUCCESS, "failed": STATUS_FAILURE}


def event_file(summaries: list[Summary]) -> bytes:
    """An event file that holds ``summaries``, of which there is at least one."""
    written = BytesIO()
    writer = RecordWriter(written)
    for event in _events(summaries):
        writer.write(event.SerializeToString())
    return written.getvalue()


def _events(summaries: list[Summary]) -> Iterable[Event]:
    began = summaries[0].at.timestamp()
    source = SourceMetadata(writer="trainledger")
    yield Event(wall_time=began, file_version=VERSION, source_metadata=source)
    for each in summaries:
        event = _event(each)
        event.wall_time = each.at.timestamp()
        yield event


@singledispatch
def _event(summary: Summary) -> Event:
    """The message that says a summary, still without its time."""
    raise NotImplementedError(summary)


@_event.register
def _(summary: SessionStart) -> Event:
    return Event(step=summary.step, session_log=SessionLog(status=SessionLog.START))


@_event.register
def _(summary: Scalars) -> Event:
    event = Event(step=summary.step)
    for tag, value in summary.values.items():
        event.summary.value.add(tag=tag, simple_value=value)
    return event


@_event.register
def _(summary: Hyperparameters) -> Event:
    started = SessionStartInfo(start_time_secs=summary.at.timestamp())
    for name, value in summary.values.items():
        said = started.hparams[name]
        if isinstance(value, bool):
            said.bool_value = value
        elif isinstance(value, str):
            said.string_value = value
        else:
            said.number_value = value
    data = HParamsPluginData(session_start_info=started)
    return _of_dashboard(metadata.SESSION_START_INFO_TAG, data)


@_event.register
def _(summary: SessionEnd) -> Event:
    status = _STATUS.get(summary.outcome, STATUS_UNKNOWN)
    ended = SessionEndInfo(status=status, end_time_secs=summary.at.timestamp())
    return _of_dashboard(metadata.SESSION_END_INFO_TAG, HParamsPluginData(session_end_info=ended))


def _of_dashboard(tag: str, data: HParamsPluginData) -> Event:
    """A message to the HParams dashboard: all that it says stands in its metadata."""
    value = Values.Value(
        tag=tag, metadata=metadata.create_summary_metadata(data), tensor=metadata.NULL_TENSOR
    )
    return Event(summary=Values(value=[value]))
