"""Tells systemd that the run goes on, for a unit with WatchdogSec: sd_notify(3)."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from contextlib import suppress


def feed_watchdog(environment: Mapping[str, str] = os.environ) -> None:
    """Nothing outside of such a service; nobody is waited for, and what cannot be sent is left out."""
    address = environment.get("NOTIFY_SOCKET", "")
    if address.startswith(("/", "@")):
        with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_NONBLOCK) as messages:
            messages.sendto(b"WATCHDOG=1", address.replace("@", "\0", 1) if address[0] == "@" else address)
