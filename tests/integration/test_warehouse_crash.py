"""The warehouse's file under kill -9: rows and position stay one."""

import random
import subprocess
import sys
from pathlib import Path

from projections.warehouse import Warehouse
from tests import make

ROUNDS = 4
BATCH = 20
WRITER = """
import sys
from pathlib import Path
from projections.warehouse import Warehouse
from tests import make

warehouse = Warehouse(Path(sys.argv[1]))
while True:
    start = warehouse.position()
    steps = make.recorded([make.step(start + n) for n in range(1, 21)])
    warehouse.apply([each._replace(position=start + each.position) for each in steps])
    print(warehouse.position(), flush=True)
"""


def test_a_killed_writer_loses_nothing_that_it_acknowledged(tmp_path: Path) -> None:
    """Exactly once: after each kill there are as many rows as the position says."""
    path = tmp_path / "warehouse.duckdb"
    chance = random.Random(7)

    for _ in range(ROUNDS):
        acknowledged = killed_writer(path, batches=chance.randint(3, 12))

        warehouse = Warehouse(path)
        with warehouse.read() as cursor:
            found = cursor.execute("SELECT count(*), max(position), max(step) FROM metric")
            ((rows, last, step),) = found.fetchall()
        assert warehouse.position() == rows == last == step
        assert warehouse.position() >= acknowledged
        assert not (tmp_path / "warehouse.duckdb.bad").exists()
        warehouse.close()


def killed_writer(path: Path, batches: int) -> int:
    """Run a writer, kill it in the middle of things, and answer the last position it told."""
    root = Path(make.__file__).parent.parent
    writer = subprocess.Popen(
        [sys.executable, "-c", WRITER, str(path)], stdout=subprocess.PIPE, text=True, cwd=root
    )
    assert writer.stdout is not None
    told = [int(writer.stdout.readline()) for _ in range(batches)]
    writer.kill()
    rest = writer.communicate()[0].split("\n")[:-1]
    return max(told + [int(line) for line in rest])
