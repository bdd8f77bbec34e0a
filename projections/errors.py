"""What goes wrong in a projection.

ProjectionError
├── InUseError             another process owns the file
├── NoCopyError            nothing is published yet
├── QueryError             a query has no answer
│   ├── QueryRefusedError      it is wrong, or asks for what queries may not do
│   ├── QueryLimitError        it asks for more time, memory or room than one may have
│   └── QueryBusyError         every worker is at work for others
└── UnknownAttemptError    the run has no attempt of this number
"""


class ProjectionError(Exception):
    """The root of what projections raise."""


class InUseError(ProjectionError):
    """Another process has the warehouse open."""


class UnknownAttemptError(ProjectionError):
    """Settings were asked for of an attempt that the run never opened."""


class NoCopyError(ProjectionError):
    """There is no published copy that a query could read."""


class QueryError(ProjectionError):
    """A query has no answer."""


class QueryRefusedError(QueryError):
    """The query is wrong, or asks for what queries may not do.

    ``excerpt`` shows where: a line of the query, and a mark below it.
    """

    def __init__(self, sentence: str, excerpt: str = "") -> None:
        super().__init__(sentence)
        self.excerpt = excerpt


class QueryLimitError(QueryError):
    """The query asks for more than one may have."""


class QueryBusyError(QueryError):
    """Every worker is at work for others."""
