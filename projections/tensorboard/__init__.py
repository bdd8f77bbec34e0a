"""TensorBoard event files of a run: made from its events when they are asked for, and never kept.

``fold.py`` says what each event adds, ``curves.py`` where a reader goes on, and ``records.py``, the
only one that needs the package ``tensorboard``, what that is in bytes. ``docs/tensorboard.md`` has
the names.
"""

from projections.tensorboard.curves import Curves, Page

__all__ = ["Curves", "Page"]
