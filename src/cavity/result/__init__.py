"""What a fit gives: predictions, leave-one-out densities."""
