"""SQL for analysts: queries over the published copy, in processes that can be killed."""
