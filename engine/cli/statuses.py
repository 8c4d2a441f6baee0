"""Exit statuses of the command; `process` says what each means."""

from __future__ import annotations

EXIT_SKIPPED, EXIT_ERROR, EXIT_BROKEN, EXIT_STALLED = 1, 2, 3, 4
EXIT_BUG, EXIT_AGAIN, EXIT_STOPPED, EXIT_PIPE = 70, 75, 130, 141
