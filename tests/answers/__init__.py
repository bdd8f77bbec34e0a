"""What each route answers, by its name in the code: an example, and the problems of its own.

The reference page prints them; a test compares their members with those of real answers.
"""

from tests.answers import audit, branches, runs, series, service
from tests.answers.parts import ATTEMPT, RECORD, SUPERSEDED_BY, Route

__all__ = ["ATTEMPT", "RECORD", "ROUTES", "SUPERSEDED_BY", "Route"]

ROUTES: dict[str, Route] = {
    **runs.ROUTES,
    **series.ROUTES,
    **branches.ROUTES,
    **audit.ROUTES,
    **service.ROUTES,
}
