"""HTTP routes, one module for each thing that is asked."""
