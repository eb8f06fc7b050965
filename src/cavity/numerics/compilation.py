"""Say so when the kernels compile: once per installation, then they come from the disk cache."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

logger = logging.getLogger("cavity")

PATIENCE = 1.0  # seconds; loading from the disk cache takes about 0.3
MESSAGE = "cavity: compiling its numerical kernels (once per installation, ten to fifteen seconds) …"


_ready: set[Any] = set()  # kernels that have run: asking Numba takes as long as a small kernel


@contextmanager
def announced(kernel: Any) -> Iterator[None]:
    """Log a warning-level line when the first call of a kernel takes longer than a cache hit would."""
    if kernel in _ready or kernel.signatures:
        _ready.add(kernel)
        yield
        return
    timer = threading.Timer(PATIENCE, logger.warning, (MESSAGE,))
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
