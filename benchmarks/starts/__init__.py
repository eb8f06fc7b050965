"""What the choices behind the defaults are worth, one at a time."""
