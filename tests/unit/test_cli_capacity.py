"""Who holds the devices, as text."""

from cli.render.capacity import capacity
from tests.answers import ROUTES

ANSWER = ROUTES["capacity"].example
HOLDER = "1f0c9a3e5b7d2846"


def test_each_device_has_a_line_and_each_waiting_run_says_for_what() -> None:
    """I27: ids are whole, a free device says so."""
    lines = capacity(ANSWER, width=None).splitlines()

    assert lines[1].split()[:4] == ["cuda:0", HOLDER, "TRAINING", "1"]
    assert lines[2].split()[:2] == ["cuda:1", "free"]
    assert all(line.endswith("NVIDIA A100-SXM4-40GB") for line in lines[1:3])
    assert lines[3:] == [
        "",
        "1 run waiting, the next one first:",
        f"  8d2b4c6e0f1a3957  waits for 2 devices; cuda:0 is held by run {HOLDER}",
    ]


def test_columns_go_before_an_id_is_shortened() -> None:
    """U18, C53: in 40 columns."""
    text = capacity(ANSWER, width=40)

    assert HOLDER in text
    assert all(len(line) <= 40 for line in text.splitlines()[:3])


def test_a_machine_without_gpus_names_no_models() -> None:
    devices = [each | {"model": None, "memoryBytes": None} for each in ANSWER["devices"]]

    assert "MODEL" in capacity(ANSWER, width=None).splitlines()[0].upper()
    assert "MODEL" not in capacity(ANSWER | {"devices": devices}, width=None).upper()


def test_a_run_that_nobody_looked_at_waits_for_its_turn() -> None:
    (run,) = ANSWER["waiting"]
    answer = ANSWER | {"waiting": [run | {"waitingFor": None}]}

    assert capacity(answer, width=None).endswith("8d2b4c6e0f1a3957  waits for its turn\n")
