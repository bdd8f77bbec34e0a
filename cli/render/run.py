"""The detail of a run in three parts, State, Results and Cost, and Settings where asked for."""

import re
from collections.abc import Iterator

from cli.render.annotations import labels
from cli.render.checks import start_checks
from cli.render.cost import cost
from cli.render.part import Field, part
from cli.render.settings import settings
from cli.render.text import count, counted, duration, moment, number, percent, plain, short, size
from cli.wire import Json

# A data set of the catalogue: of its identity, as much as tells it from others.
_PINNED = re.compile(r"(dataset:(?:.*@)?[0-9a-f]{12})[0-9a-f]{52}")


def detail(
    record: Json, *, width: int | None, with_settings: bool, attempt: int | None = None
) -> str:
    """The record as people read it, in lines of ``width`` columns where words allow it."""
    parts = [
        part("State", _state(record), width),
        part("Results", _results(record), width),
        part("Cost", cost(record), width),
    ]
    if with_settings:
        parts.append(settings(record, width, attempt=attempt))
    return "\n".join(parts)


def _state(record: Json) -> Iterator[Field]:
    yield "Run", plain(record["runId"])
    if record.get("asOf"):
        then = record["asOf"]
        yield "As of", f"{moment(then['at'])}, position {then['position']}"
    yield from _said(record)
    if record.get("origin"):
        yield "Branch of", _origin(record)
    if record.get("imported"):
        yield "Imported from", _imported(record["imported"])
    yield "Phase", _phase(record)
    if record.get("pause"):
        yield "Pause", _pause(record)
    if record.get("stage"):
        yield "Stage", _stage(record["stage"])
    yield "Progress", _progress(record)
    yield "Observed step", _step(record.get("observedStep"))
    yield "Saved step", _saved(record)
    yield _beginning(record), moment(record.get("submittedAt"))
    if record.get("failure"):
        yield "Failure", plain(record["failure"]["reason"])
        yield "What to do", plain(record["failure"].get("advice") or "-")


def _said(record: Json) -> Iterator[Field]:
    """What people said of the run."""
    for label, name in (("Name", "name"), ("Description", "description")):
        if record.get(name):
            yield label, plain(record[name])
    if record.get("labels"):
        yield "Labels", labels(record["labels"])
    yield "Project", plain(record["project"])
    yield "Method", plain(record["method"])
    yield "Base model", plain(record["baseModel"] or "not known")
    yield "Dataset", _dataset(record)


def _dataset(record: Json) -> str:
    rows, kept = record.get("datasetRows"), record.get("validationRows")
    notes = [counted(rows, "row")] if rows is not None else []
    if kept:
        notes.append(f"{count(kept)} for validation")
    name = record["dataset"] or "not known"
    pinned = _PINNED.fullmatch(name)
    name = pinned[1] if pinned else name
    return plain(name) + (f" ({', '.join(notes)})" if notes else "")


def _origin(record: Json) -> str:
    """What a branch began from, and how many updates it may make."""
    origin, budget = record["origin"], (record.get("progress") or {}).get("total")
    said = (
        f"run {plain(origin['parent'])} at step {count(origin['step'])} "
        f"(snapshot {short(origin['snapshotId'])})\nrestored: {plain(origin['restore'])}"
    )
    return said if budget is None else f"{said}, budget: {counted(budget, 'step')}"


def _imported(source: Json) -> str:
    """The file that another tracker made."""
    digest = plain(source["sha256"])[:12]
    beside = f" and {plain(source['beside']['file'])}" if source.get("beside") else ""
    return f"{plain(source['file'])}{beside} ({plain(source['source'])}, sha256 {digest})"


def _beginning(record: Json) -> str:
    """What happened when the run was submitted; a history with times begins when it says so."""
    if not record.get("imported"):
        return "Submitted"
    return "Began" if record["imported"]["isTimed"] else "Imported"


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


def _saved(record: Json) -> str:
    """The step that the run would go on from, and what holds it."""
    said, saved = _step(record.get("savedStep")), record.get("saved")
    return f"{said} (snapshot {short(saved['snapshotId'])})" if saved else said


def _pause(record: Json) -> str:
    """What was asked for, how far that came, and what becomes of it."""
    pause = record["pause"]
    asked = f"--checkpoint {plain(pause['checkpoint'])}, asked for {moment(pause['requestedAt'])}"
    if pause.get("failed"):
        return f"{asked}\nfailed, the run goes on: {plain(pause['failed'])}"
    released = pause.get("resourcesReleased")
    devices = "its devices are released" if released else "its devices are held until it has ended"
    if record["phase"] != "PAUSED":
        return f"{asked}\n{devices}"
    return f"{asked}\n{devices}\n`trainledger runs resume {plain(record['runId'])}` goes on"


def _results(record: Json) -> Iterator[Field]:
    results = record.get("results") or {}
    yield "Model", _model(results.get("model"))
    yield "Validation loss", _validations(results)
    yield "Training loss", _training(results.get("trainingLoss"))
    if results.get("startChecks"):
        yield "Start checks", start_checks(results["startChecks"])
    if record.get("dataFit"):
        yield "Data fit", data_fit(record["dataFit"])


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


def _validations(results: Json) -> str:
    """The newest loss; of several sets that of each."""
    sets = results.get("validationLosses") or {}
    if len(sets) < 2:
        return _validation(results.get("validationLoss"))
    return "\n".join(f"{plain(name)} {_validation(sets[name])}" for name in sorted(sets))


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


def data_fit(fit: Json) -> str:
    """How rows fit the maximum sequence length, as a sentence."""
    said = (
        f"{counted(fit['rows'], 'row')}: {count(fit['reached'])} reached maxSeqLength, "
        f"{count(fit['lostEnd'])} of them lost the end of the target, "
        f"{count(fit['dropped'])} dropped with nothing left to train on"
    )
    padding = fit.get("paddingShare")
    return said if padding is None else f"{said}; {percent(padding)} of the batches was padding"
