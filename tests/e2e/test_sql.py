"""SQL as an analyst has it: the command against a real server, and a client of one's own."""

import signal
from collections.abc import Iterator
from pathlib import Path

import duckdb
import psutil
import pytest

from tests.product import PATIENCE_SECONDS, Product, eventually

ENDLESS = "WITH RECURSIVE r AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM r) SELECT count(*) FROM r"
COUNT = "SELECT count(*) AS updates FROM metrics"


@pytest.fixture(scope="module")
def analyst(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Product]:
    """A home in which a run of ten updates has ended."""
    product = Product(tmp_path_factory.mktemp("analyst") / "home", TRAINLEDGER_SQL_SECONDS="60")
    run_id = product.start([{"training": 10}, {"steps": 10, "seconds": 0.01}])
    product.wait_for_phase(run_id, "COMPLETED")
    yield product
    product.close()


def test_the_command_asks_the_newest_copy(analyst: Product) -> None:
    """C55."""
    answer = analyst.run("sql", COUNT, "--fresh", "-o", "csv")

    assert answer == "updates\n10\n"


def test_the_path_is_that_of_a_file_which_any_client_opens(analyst: Product) -> None:
    path = analyst.run("sql", "--path", "--fresh").rstrip("\n")

    with duckdb.connect(path, read_only=True) as client:
        assert client.execute(COUNT).fetchall() == [(10,)]


def test_control_c_ends_the_query_on_the_server_too(analyst: Product) -> None:
    asking = analyst.popen("sql", ENDLESS)
    (worker,) = eventually(lambda: busy(analyst), "a worker is busy")

    asking.send_signal(signal.SIGINT)
    _, talk = asking.communicate(timeout=PATIENCE_SECONDS)

    assert (asking.returncode, talk) == (130, "")
    psutil.wait_procs([worker], timeout=20)
    assert not busy(analyst)
    assert analyst.run("sql", COUNT, "-o", "csv", "-q") == "updates\n10\n"


def busy(product: Product) -> list[psutil.Process]:
    """Workers that are at a query."""
    found = []
    for each in product.server().children():
        try:
            if "projections.sql.worker" in each.cmdline() and each.cpu_percent(0.1) > 10:
                found.append(each)
        except psutil.Error:
            continue
    return found


def test_a_file_of_ones_own_is_kept_until_control_c(analyst: Product, tmp_path: Path) -> None:
    file = tmp_path / "my.duckdb"
    keeping = analyst.popen("sql", "--follow", str(file))
    assert keeping.stderr is not None
    told = keeping.stderr.readline()

    assert told.startswith(f"{file} holds everything up to position ")
    with duckdb.connect(str(file), read_only=True) as client:
        assert client.execute(COUNT).fetchall() == [(10,)]
    keeping.send_signal(signal.SIGINT)
    keeping.communicate(timeout=PATIENCE_SECONDS)
    assert keeping.returncode == 130


def test_a_reader_that_leaves_early_ends_it_quietly(analyst: Product) -> None:
    """U18."""
    asking = analyst.popen("sql", "SELECT range FROM range(1000000)", "-o", "csv")
    assert asking.stdout is not None
    asking.stdout.readline()
    asking.stdout.close()

    assert asking.wait(PATIENCE_SECONDS) == 141
    assert asking.stderr is not None
    assert asking.stderr.read() == ""
    asking.stderr.close()


def test_a_query_is_killed_when_its_time_is_over(tmp_path: Path) -> None:
    product = Product(tmp_path / "home", TRAINLEDGER_SQL_SECONDS="1")
    try:
        asking = product.popen("sql", ENDLESS)
        _, talk = asking.communicate(timeout=PATIENCE_SECONDS)
    finally:
        product.close()

    assert asking.returncode == 4
    assert "the query took longer than the 1 s it has" in talk
