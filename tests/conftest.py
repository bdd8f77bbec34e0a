"""What every test runs under."""

from hypothesis import settings

# Two busy cores make single examples slow by chance; a failure has to come back the next time.
settings.register_profile("project", deadline=None, derandomize=True, max_examples=50)
settings.load_profile("project")
