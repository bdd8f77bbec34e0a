"""Runs that need more devices than there are, as their user sees it."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.answers import ROUTES
from tests.product import Product

SLOW = [{"training": 4000}, {"steps": 4000, "seconds": 0.1}]
QUICK = [{"training": 2}, {"steps": 2}]


@pytest.fixture
def product(tmp_path: Path) -> Iterator[Product]:
    """A home with one device."""
    product = Product(tmp_path / "home", TRAINLEDGER_DEVICES='["cpu:0"]')
    yield product
    product.close()


def test_a_run_waits_for_the_device_of_another_and_pays_nothing(product: Product) -> None:
    """I27, S23, S43: it says who holds what; the wait is a phase of its own, and free."""
    first = product.start(SLOW)
    product.wait_for_phase(first, "TRAINING")
    second = product.start(QUICK)
    product.wait_for_phase(second, "WAITING")

    told = product.json("capacity")
    text = product.run("capacity")
    product.run("runs", "cancel", first, "--force")
    ended = product.wait_for_phase(second, "COMPLETED")

    example = ROUTES["capacity"].example
    assert told["devices"][0]["heldBy"].keys() == example["devices"][0]["heldBy"].keys()
    assert told["waiting"][0].keys() == example["waiting"][0].keys()
    (device,) = told["devices"]
    holder = device["heldBy"]
    assert (device["device"], holder["runId"], holder["attempt"]) == ("cpu:0", first, 1)
    (waiting,) = told["waiting"]
    assert waiting["runId"] == second
    assert waiting["waitingFor"] == f"1 device; cpu:0 is held by run {first}"
    assert f"{second}  waits for 1 device; cpu:0 is held by run {first}" in text
    millis = ended["timing"]["phaseMillis"]
    assert millis["WAITING"] > 0
    paid = ended["cost"]["deviceSeconds"] * 1000
    assert paid <= sum(millis.values()) - millis["WAITING"] + 1  # each is rounded
    assert product.run("capacity") == (
        "device  held by  phase  attempt  since  project  name\n"
        "cpu:0   free     -            -  -      -        -\n"
        "no run waits\n"
    )
