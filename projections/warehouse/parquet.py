"""The views of the warehouse as Parquet files, all of one position."""

from pathlib import Path

from projections.warehouse.store import Warehouse

VIEWS = """
SELECT view_name FROM duckdb_views() WHERE NOT internal AND NOT temporary ORDER BY view_name
"""


def write_views(warehouse: Warehouse, folder: Path) -> tuple[int, list[Path]]:
    """A file for each view, and the position that all of them are of."""
    paths = []
    warehouse.make_views()
    with warehouse.read() as cursor:
        cursor.execute("BEGIN")  # so that all of them see the same commit
        try:
            ((position,),) = cursor.execute(
                "SELECT coalesce(max(position), 0) FROM tracking"
            ).fetchall()
            for (name,) in cursor.execute(VIEWS).fetchall():
                path = folder / f"{name}.parquet"
                cursor.execute(
                    f"COPY (SELECT * FROM {name}) TO '{_quoted(path)}'"  # noqa: S608 (ours)
                    " (FORMAT parquet, COMPRESSION zstd)"
                )
                paths.append(path)
        finally:
            cursor.execute("ROLLBACK")
    return int(position), paths


def _quoted(path: Path) -> str:
    """A path inside quotes: COPY takes no placeholder for it."""
    return str(path).replace("'", "''")
