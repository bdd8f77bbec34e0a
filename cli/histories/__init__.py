"""Files of other trackers, read here, so that the service needs none of their formats."""
