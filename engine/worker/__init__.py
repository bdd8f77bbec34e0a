"""Workers: programs that train and say so in their spool. Each is a package of its own."""
