"""What the product costs, as ratios to raw floors that are measured beside it in the same run."""
