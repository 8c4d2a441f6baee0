"""Exit statuses of the command; `process` says what each means."""

from __future__ import annotations

EXIT_SKIPPED, EXIT_ERROR, EXIT_BROKEN, EXIT_BUG, EXIT_STOPPED, EXIT_PIPE = 1, 2, 3, 70, 130, 141
