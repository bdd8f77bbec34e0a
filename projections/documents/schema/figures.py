"""Figures in the record of a run: results, cost, times and memory."""

from typing import get_args

from ledger.events import CheckVerdict, PhaseName
from projections.documents.cost import PARTS as USES
from projections.documents.schema.kinds import (
    Node,
    amount,
    count,
    flag,
    moment,
    names,
    number,
    one_of,
    part,
    rows,
    share,
    text,
)
from projections.documents.timing import PARTS

HELD = (
    "weights",
    "adapter",
    "gradients",
    "generation",
    "activations",
    "optimizerState",
    "overhead",
)


def figures() -> Node:
    """What was measured, and what it took."""
    return {
        "results": _results(),
        "cost": cost(of_run=True),
        "timing": _timing(),
        "memory": _memory(),
        "dataFit": part(
            "How the rows fit maxSeqLength; null: not measured.",
            {
                "rows": count("Rows."),
                "reached": count("Rows of at least maxSeqLength tokens."),
                "lostEnd": count("Rows whose target lay beyond the cut."),
                "dropped": count("Rows with nothing left to train on."),
                "paddingShare": share("Of the batches, from 0 to 1.", null=True),
            },
            null=True,
        ),
        "latest": part(
            "Newest numbers of an update.",
            {
                "step": count("The update."),
                "measured": names("Numbers under the engine's own names.", number("A number.")),
            },
            null=True,
        ),
    }


def _results() -> Node:
    validation = {
        "value": number("The loss."),
        "step": count("Update after which it was measured; 0: before the first."),
        "dataset": text("Which set, where there are several.", null=True),
        "perplexity": number("e to the loss; null: too large for a number.", null=True),
    }
    return part(
        "What came of it.",
        {
            "model": part(
                "The trained model; null: none was registered.",
                {
                    "path": text("Where it is."),
                    "sha256": text("Of its weights file.", null=True),
                    "step": count("Update that it has the weights of.", null=True),
                    "sizeBytes": count("Bytes of its weights file.", null=True),
                },
                null=True,
            ),
            "validationLoss": part("Newest validation loss.", validation, null=True),
            "validationLosses": names(
                "Newest of each labelled validation set.", part("One set.", validation)
            ),
            "trainingLoss": part(
                "Training loss of the updates that reported one.",
                {
                    "first": number("Of the first."),
                    "last": number("Of the last."),
                    "mean": number("Of the finite ones.", null=True),
                    "steps": count("How many finite ones there are."),
                    "notFinite": count("How many others."),
                },
                null=True,
            ),
            "startChecks": _start_checks(),
        },
    )


def _start_checks() -> Node:
    check = {
        "name": text("What was checked."),
        "value": number("What was found."),
        "warnLimit": number("Beyond it, it is worth a warning."),
        "refuseLimit": number("Beyond it, training was refused."),
        "unit": text("Of the three numbers.", null=True),
        "seconds": number("That the check took, in seconds."),
        "verdict": one_of("What came of it.", get_args(CheckVerdict)),
        "attempt": count("That made it.", least=1),
    }
    return part(
        "What was checked before the first update; null: nothing was.",
        {
            "passed": count("Checks that found nothing to warn of."),
            "total": count("Checks made."),
            "seconds": number("That all of them took, in seconds."),
            "checks": rows("Each of them.", part("One check.", check)),
        },
        null=True,
    )


def cost(*, of_run: bool) -> Node:
    """Device time of a run, with its price, or of one attempt."""
    uses = {f"{use}Seconds": amount(f"Devices x seconds, {use}.") for use in USES}
    members = {
        "deviceSeconds": amount(
            "Devices x seconds held; null: not known, of an import.", null=True
        ),
        "estimate": flag("Whether it is one, since devices are held."),
        "split": part("What it was for; docs/cost.md defines the parts.", uses, null=True),
    }
    if not of_run:
        return part("Device time of the attempt.", members)
    priced = {
        "attempt": count("Its number.", least=1),
        "deviceSeconds": amount("Devices x seconds held."),
        "perHour": amount("Price of one device for an hour, in the currency."),
        "amount": amount("In the currency."),
    }
    money = {
        "amount": amount("In the currency."),
        "currency": text("Of the price book."),
        "profile": text("Of the devices, in the price book."),
        "estimate": flag("Whether it will still grow."),
        "perAttempt": rows("Of each attempt.", part("One attempt.", priced)),
    }
    pace = {
        "attempt": count("Whose updates they are, the newest one's.", least=1),
        "tokensPerSecond": amount("On all its devices together."),
        "tokensPerSecondPerDevice": amount("The same, divided by their number."),
    }
    members |= {
        "deviceKind": one_of("Of the devices.", ("cpu", "gpu"), null=True),
        "throughput": part("How fast it trains; null: not measured.", pace, null=True),
        "money": part("Price of it; null: not known.", money, null=True),
    }
    return part("Device time of all attempts, and what it cost.", members)


def _timing() -> Node:
    visit = {
        "phase": one_of("The phase.", get_args(PhaseName)),
        "enteredAt": moment("When it was entered."),
        "leftAt": moment("When it was left; null: it is in it.", null=True),
        "millis": count("How long that was, in milliseconds."),
    }
    split = {
        f"{part}Millis": count(f"Milliseconds, {part}; null: not known.", null=True)
        for part in PARTS
    }
    return part(
        "How long it took by the clock. Of an import without times, only what its history says.",
        {
            "startedAt": moment("When it was submitted.", null=True),
            "endedAt": moment("When it ended; null: it goes on.", null=True),
            "lastSignAt": moment("When it was last known to be alive.", null=True),
            "durationMillis": count("From start to end, in milliseconds.", null=True),
            "phaseMillis": names(
                "Milliseconds in each phase.",
                count("Milliseconds."),
                propertyNames={"enum": list(get_args(PhaseName))},
            ),
            "visits": rows("Each visit of a phase, in order.", part("One visit.", visit)),
            "split": part("What the duration was for.", split),
        },
    )


def _memory() -> Node:
    held = {
        "phase": text("Of the step, in the engine's words."),
        **{f"{part}Bytes": count(f"Bytes, {part}.", null=True) for part in (*HELD, "free")},
    }
    return part(
        "Memory of the devices; null: not measured.",
        {
            "peakBytes": names("Highest bytes of each device.", count("Bytes.")),
            "breakdown": part(
                "What held a device in the step that reserved the most of it.",
                {
                    "attempt": count("Whose step it is.", least=1),
                    "step": count("The step.", null=True),
                    "device": text("The device."),
                    "sizeBytes": count("Bytes that it has."),
                    "reservedBytes": count("Bytes that were reserved."),
                    "peak": part("The phase that held the most.", held),
                    "other": part("The other phase of a step.", held, null=True),
                },
                null=True,
            ),
        },
        null=True,
    )
