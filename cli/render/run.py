"""The detail of a run in three parts, State, Results and Cost, and Settings where asked for."""

from collections.abc import Iterator

from cli.render.settings import settings
from cli.render.text import (
    count,
    counted,
    duration,
    number,
    percent,
    plain,
    size,
    value,
    wrap,
)
from cli.wire import Json

_LABEL_COLUMNS = 18

Field = tuple[str, str]  # label and text; an empty text is left out


def detail(record: Json, *, width: int | None, with_settings: bool) -> str:
    """The record as people read it, in lines of ``width`` columns where words allow it."""
    parts = [
        _part("State", _state(record), width),
        _part("Results", _results(record), width),
        _part("Cost", _cost(record), width),
    ]
    if with_settings:
        parts.append(settings(record, width))
    return "\n".join(parts)


def _part(title: str, fields: Iterator[Field], width: int | None) -> str:
    lines = [title]
    for label, text in fields:
        space = max(20, width - _LABEL_COLUMNS - 2) if width else None
        first, *more = wrap(text, space) if space else [text]
        lines.append(f"  {label:<{_LABEL_COLUMNS - 2}}  {first}".rstrip())
        lines += [f"{' ' * _LABEL_COLUMNS}  {line}".rstrip() for line in more]
    return "\n".join(lines) + "\n"


def _state(record: Json) -> Iterator[Field]:
    yield "Run", plain(record["runId"])
    for label, name in (("Name", "name"), ("Description", "description")):
        if record.get(name):
            yield label, plain(record[name])
    yield "Project", plain(record["project"])
    yield "Method", plain(record["method"])
    yield "Base model", plain(record["baseModel"])
    yield "Dataset", _dataset(record)
    yield "Phase", _phase(record)
    if record.get("stage"):
        yield "Stage", _stage(record["stage"])
    yield "Progress", _progress(record)
    yield "Observed step", _step(record.get("observedStep"))
    yield "Saved step", _step(record.get("savedStep"))
    yield "Submitted", _time(record.get("submittedAt"))
    if record.get("failure"):
        yield "Failure", plain(record["failure"]["reason"])
        yield "What to do", plain(record["failure"].get("advice") or "-")


def _dataset(record: Json) -> str:
    rows, kept = record.get("datasetRows"), record.get("validationRows")
    notes = [counted(rows, "row")] if rows is not None else []
    if kept:
        notes.append(f"{count(kept)} for validation")
    return plain(record["dataset"]) + (f" ({', '.join(notes)})" if notes else "")


def _phase(record: Json) -> str:
    said = plain(record["phase"])
    if record.get("waitingFor"):
        said += f": {plain(record['waitingFor'])}"
    liveness = record.get("liveness") or {}
    if liveness.get("verdict") in ("silent", "lost"):
        silent = liveness.get("silentSeconds")
        since = f" for {duration(silent)}" if silent is not None else ""
        said += f" ({plain(liveness['verdict'])}{since})"
    return said


def _stage(stage: Json) -> str:
    name, completed, total = plain(stage["name"]), stage.get("completed"), stage.get("total")
    if completed is None:
        return name
    if total is None:
        return f"{name}: {count(completed)}"
    return f"{name}: {count(completed)} of {count(total)}"


def _progress(record: Json) -> str:
    done = record.get("progress") or {}
    completed, total = done.get("completed") or 0, done.get("total")
    if total:
        said = f"{count(completed)} of {counted(total, 'step')} ({percent(completed / total)})"
    else:
        said = counted(completed, "step")
    loss = done.get("lastLoss")
    return said if loss is None else f"{said}, last loss {number(loss)}"


def _step(step: int | None) -> str:
    return "none" if step is None else count(step)


def _time(text: str | None) -> str:
    """A moment of the wire (ISO 8601, UTC) without its fractions."""
    if not text:
        return "-"
    day, _, clock = plain(text).partition("T")
    return f"{day} {clock[:8]} UTC"


def _results(record: Json) -> Iterator[Field]:
    results = record.get("results") or {}
    yield "Model", _model(results.get("model"))
    yield "Validation loss", _validation(results.get("validationLoss"))
    yield "Training loss", _training(results.get("trainingLoss"))
    if record.get("dataFit"):
        yield "Data fit", _data_fit(record["dataFit"])


def _model(model: Json | None) -> str:
    if not model:
        return "none registered"
    notes = []
    if model.get("step") is not None:
        notes.append(f"step {count(model['step'])}")
    if model.get("sizeBytes") is not None:
        notes.append(size(model["sizeBytes"]))
    if model.get("sha256"):
        notes.append(f"sha256 {plain(model['sha256'])}")
    return plain(model["path"]) + (f" ({', '.join(notes)})" if notes else "")


def _validation(loss: Json | None) -> str:
    if not loss:
        return "not measured"
    said = f"{number(loss['value'])} at step {count(loss['step'])}"
    perplexity = loss.get("perplexity")
    return said if perplexity is None else f"{said} (perplexity {number(perplexity)})"


def _training(loss: Json | None) -> str:
    if not loss:
        return "not measured"
    said = f"{number(loss['first'])} -> {number(loss['last'])}, mean {number(loss['mean'])}"
    said += f" over {counted(loss['steps'], 'step')}"
    return f"{said} ({count(loss['notFinite'])} not finite)" if loss.get("notFinite") else said


def _data_fit(fit: Json) -> str:
    said = (
        f"{counted(fit['rows'], 'row')}: {count(fit['reached'])} reached maxSeqLength, "
        f"{count(fit['lostEnd'])} of them lost the end of the target, "
        f"{count(fit['dropped'])} dropped with nothing left to train on"
    )
    padding = fit.get("paddingShare")
    return said if padding is None else f"{said}; {percent(padding)} of the batches was padding"


def _cost(record: Json) -> Iterator[Field]:
    cost, timing = record.get("cost") or {}, record.get("timing") or {}
    yield _device_time(cost)
    yield "Duration", _duration(timing)
    for label, name in _SPLIT:
        yield f"  {label}", duration((timing.get("split") or {}).get(name, 0) / 1000)
    yield "Device memory", _memory(record.get("memory"))
    for attempt in record.get("attempts") or []:
        yield f"Attempt {attempt['attempt']}", _attempt(attempt)


_SPLIT = (
    ("waiting", "waitingMillis"),
    ("queued", "queuedMillis"),
    ("preparing", "preparingMillis"),
    ("training", "trainingMillis"),
    ("other", "otherMillis"),
)


def _device_time(cost: Json) -> Field:
    seconds = cost.get("deviceSeconds") or 0
    label = "Device time" if cost.get("deviceKind") == "cpu" else "GPU time"
    said = duration(seconds)
    if seconds >= 60:
        said += f" ({seconds:,.0f} s)"
    return label, f"{said}, estimate" if cost.get("estimate") else said


def _duration(timing: Json) -> str:
    millis = timing.get("durationMillis")
    if millis is None:
        return "-"
    return duration(millis / 1000) + ("" if timing.get("endedAt") else " so far")


def _memory(memory: Json | None) -> str:
    peaks = (memory or {}).get("peakBytes") or {}
    said = [f"{plain(device)} {size(peak)} at the peak" for device, peak in sorted(peaks.items())]
    return ", ".join(said) or "not measured"


def _attempt(attempt: Json) -> str:
    said = [value(attempt.get("devices"))]
    if attempt.get("firstStep") is not None:
        said.append(f"steps {count(attempt['firstStep'])} to {count(attempt['lastStep'])}")
    if attempt.get("deviceSeconds") is not None:
        said.append(duration(attempt["deviceSeconds"]))
    if attempt.get("reason"):
        said.append(plain(attempt["reason"]))
    if attempt.get("rejectedLines"):
        said.append(f"{counted(attempt['rejectedLines'], 'line')} of its reports rejected")
    return ", ".join(said)
