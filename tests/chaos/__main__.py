"""``python -m tests.chaos``: many random histories at once, and whether each kept its promises."""

import argparse
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from tempfile import TemporaryDirectory
from typing import Any

from tests.chaos.branching import check_branching
from tests.chaos.checks import check, check_models, check_world
from tests.chaos.exact import check_exact_restore
from tests.chaos.history import History, play, prepare, simulated, trained
from tests.chaos.world import World

AT_ONCE = 8  # histories that share a server
REAL_AT_ONCE = 2  # of those that train a model
DISTURBANCES = 6  # of one history, at most
SERVER_LIFE_SECONDS = 4.0  # on average, until it is killed


def rounds(folder: Path, seed: int, *, histories: int, real: int) -> list[History]:
    """Play histories over one server that is killed again and again; check them all.

    Raises:
        AssertionError: a promise was broken.
    """
    rng = Random(seed)
    if real:
        prepare(folder / "training")
    world = World(folder / "home", rng, slots=AT_ONCE)
    over = threading.Event()
    killer = threading.Thread(target=_kill_servers, args=(world, Random(rng.random()), over))
    killer.start()
    try:
        made = [
            *_played(world, seed * 10_000, histories, simulated, at_once=AT_ONCE),
            *_played(
                world,
                seed * 10_000 + histories,
                real,
                lambda each: trained(each, folder / "training"),
                at_once=REAL_AT_ONCE,
            ),
        ]
        over.set()
        killer.join()
        for history in made:
            check(world, history)
        check_models(world, made[histories:])
        check_world(world)
    except BaseException:
        sys.stderr.write(world.server_log())
        raise
    finally:
        over.set()
        killer.join()
        world.close()
    return made


def branching(folder: Path, seed: int, *, kills: int) -> str:
    """Whether every token reaches one child, however often the server dies; what was found.

    Raises:
        AssertionError: one does not, or something is left over.
    """
    rng = Random(seed)
    world = World(folder / "branching home", rng, slots=2)
    try:
        return check_branching(world, rng, kills=kills)
    except BaseException:
        sys.stderr.write(world.server_log())
        raise
    finally:
        world.close()


def exact(folder: Path) -> str:
    """Whether a restore of a real model is exact; what was compared.

    Raises:
        AssertionError: it is not.
    """
    world = World(folder / "exact home", Random(0), slots=1)
    try:
        return check_exact_restore(world, folder / "exact")
    finally:
        world.close()


def _played(
    world: World,
    first: int,
    count: int,
    plan: Callable[[Random], tuple[dict[str, Any], int]],
    *,
    at_once: int,
) -> list[History]:
    """Histories with the seeds from ``first`` on, so many at once."""

    def one(seed: int) -> History:
        document, updates = plan(Random(seed))
        history = History(seed, updates, is_scripted=plan is simulated)
        play(world, history, document, disturbances=DISTURBANCES)
        return history

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(one, range(first, first + count)))


def _kill_servers(world: World, rng: Random, over: threading.Event) -> None:
    started = 0.0  # seconds that the newest server took: a slow machine gets more of its life
    while not over.wait(rng.expovariate(1 / (SERVER_LIFE_SECONDS + 2 * started))):
        began = time.monotonic()
        world.kill_server()
        started = time.monotonic() - began


def main() -> int:
    """Play as many histories as the command line says."""
    words = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    words.add_argument("--histories", type=int, default=200, help="with the scripted trainer")
    words.add_argument("--real", type=int, default=10, help="with a model")
    words.add_argument("--branches", type=int, default=50, help="each with a server that dies")
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--no-exact", action="store_true", help="do not train SmolLM2")
    asked = words.parse_args()
    began = time.monotonic()
    with TemporaryDirectory(prefix="trainledger-chaos-") as folder:
        histories = rounds(Path(folder), asked.seed, histories=asked.histories, real=asked.real)
        if asked.branches:
            sys.stdout.write(branching(Path(folder), asked.seed, kills=asked.branches))
        if not asked.no_exact:
            sys.stdout.write(exact(Path(folder)))
    acts = sum(len(each.done) for each in histories)
    sys.stdout.write(
        f"{len(histories)} histories with {acts} disturbances kept every promise, "
        f"in {time.monotonic() - began:.0f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
