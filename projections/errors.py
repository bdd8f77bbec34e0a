"""What goes wrong in a projection.

ProjectionError
└── InUseError    another process owns the file
"""


class ProjectionError(Exception):
    """The root of what projections raise."""


class InUseError(ProjectionError):
    """Another process has the warehouse open."""
