"""Looking back with the installed command, over a server that was started again since."""

import json
from typing import Any

from tests.product import Product

SCRIPT: list[dict[str, Any]] = [
    {"training": 6},
    {"steps": 6},
    {"restore": 2},
    {"steps": 4},
]


def test_what_a_run_said_in_the_middle_is_said_again_after_its_end(product: Product) -> None:
    """S21, S86, D6: before it went back, right after that, and once the server is another one."""
    run_id = product.start(SCRIPT)
    product.wait_for_phase(run_id, "COMPLETED")
    lines = product.run("runs", "events", run_id, "-o", "json-compact").splitlines()
    restored = next(
        said["position"] for said in map(json.loads, lines) if said["kind"] == "restored"
    )

    product.run("server", "stop")
    before, after = (
        product.json("runs", "get", run_id, "--as-of", str(position))
        for position in (restored - 1, restored)
    )
    series = product.json("runs", "metrics", run_id, "--as-of", str(restored - 1))["steps"]
    (listed,) = product.json("runs", "list", "--as-of", str(restored))["runs"]

    assert (before["observedStep"], after["observedStep"]) == (6, 2)
    assert (before["phase"], before["cost"]["estimate"]) == ("TRAINING", True)
    assert before["asOf"]["position"] == restored - 1
    assert [row["step"] for row in series] == [1, 2, 3, 4, 5, 6]
    assert (listed["phase"], listed["observedStep"]) == ("TRAINING", 2)
    assert product.record(run_id)["observedStep"] == 6
    product.run("runs", "get", run_id, "--as-of", "2020-01-01", expect=3)
    product.run("runs", "get", run_id, "--as-of", "2999-01-01", expect=4)
