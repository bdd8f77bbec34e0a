"""Commands that make something of files from elsewhere."""
