"""``python -m cavity`` is the ``cavity`` command."""

from cavity.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
