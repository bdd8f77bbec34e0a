"""The engine: programs that train and report, and the parts that start and watch them."""
