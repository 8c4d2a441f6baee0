"""The process around a command: its exit status tells what became of it, whatever happens.

0: all is well. 1: finished, but some sources could not be read, or no variant was made, or
`setup`'s were all rejected. 2: cannot run, with one
sentence that says why. 3: a limit was broken: by the model under test (`evaluate`), or by a suite that covers less of
its user's values than --require-coverage asks for; or `verify` found a fault. 4: `status` sees a run that stands still,
or was killed. 70: a bug in Counterfactory, with its traceback. 75 (EX_TEMPFAIL): what a new process gets over, such as
a GPU that was lost; the same command goes on, and a service is to start it again. 130: stopped by Ctrl-C or SIGTERM;
the same command goes on from there. 141: nobody reads the output any more, as for other Unix tools (128 + SIGPIPE).

Python itself would end with 1 after a crash and with 120 after output that it could not flush.
"""

from __future__ import annotations

import codecs
import io
import os
import re
import signal
import sys
import traceback
import warnings
from contextlib import suppress
from typing import NoReturn

from ..errors import lost_device
from ..files.escaping import for_terminal
from .statuses import EXIT_AGAIN, EXIT_BROKEN, EXIT_BUG, EXIT_ERROR, EXIT_PIPE, EXIT_SKIPPED, EXIT_STOPPED

# What tables and lines of the product hold beyond ASCII.
_PLAIN = {
    "\N{MINUS SIGN}": "-",
    "\N{HORIZONTAL ELLIPSIS}": "..",
    "\N{RIGHTWARDS ARROW}": "->",
    "\N{BOX DRAWINGS LIGHT HORIZONTAL}": "-",
}


# How libraries say that the system gave no memory, or no thread, which takes some.
_OUT_OF_MEMORY = re.compile(r"bad_alloc|can't start new thread|[Cc]annot allocate|[Oo]ut of memory|Insufficient memory")
_LOST = "the GPU was lost ({}): run the same command again, what is done is kept; see `nvidia-smi` and `dmesg` for Xid"
_NO_MEMORY = "the system gave no more memory: free some, or raise the limit, and run the same command again"


def run() -> NoReturn:
    """Run the command of the command line, and end the process."""
    _open_missing_streams()
    _write_plainly()
    # Pictures that are too large are refused, in a sentence.
    warnings.filterwarnings("ignore", "Image size .* exceeds limit")
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # what stops a service ends it as Ctrl-C does
    try:
        status = _run_command()
        if status in (0, EXIT_SKIPPED, EXIT_BROKEN):  # a command that failed has said why already
            sys.stdout.flush()
    except BrokenPipeError:
        status = EXIT_PIPE
    except KeyboardInterrupt:
        status = EXIT_STOPPED
    except OSError as error:  # of the flush: a command's own are sentences already
        status = _say(EXIT_ERROR, f"error: the output cannot be written: {error.strerror or error}")
    except Exception as error:
        if lost_device(f"{type(error).__module__} {error}"):
            status = _say(EXIT_AGAIN, f"error: {_LOST.format(_first_line(error))}")
        elif _lacks_memory(error):
            status = _say(EXIT_ERROR, f"error: {_NO_MEMORY}")
        else:
            status = _say(EXIT_BUG, f"{traceback.format_exc()}\n{_bug_report(error)}")
    _give_up_unwritten()
    sys.exit(status)


def _write_plainly() -> None:
    """Where the output's encoding lacks a letter, it gets the nearest that every encoding has: a suite that took hours
    is not to end in an UnicodeEncodeError. A minus sign stays one.
    """
    codecs.register_error("plain", _plain)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="plain")


def _plain(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    letters = error.object[error.start : error.end]
    return "".join(_PLAIN.get(letter, "?") for letter in letters), error.end


def _run_command() -> int:
    # Imported here, so that an installation that cannot be imported is not taken for skipped sources.
    from .arguments import main

    try:
        return main()
    except SystemExit as leaving:  # argparse: after --help, or a wrong argument
        return leaving.code if isinstance(leaving.code, int) else 0 if leaving.code is None else EXIT_ERROR


def _lacks_memory(error: Exception) -> bool:
    return isinstance(error, MemoryError) or _OUT_OF_MEMORY.search(str(error)) is not None


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), type(error).__name__)


def _bug_report(error: Exception) -> str:
    reason = str(error) or "no further words"
    return (
        f"error: this is a bug in counterfactory ({type(error).__name__}: {reason}); please report it with the lines "
        "above and the command. A suite keeps what was finished"
    )


def _say(status: int, text: str) -> int:
    """Write to standard error, if somebody reads it; returns the status."""
    with suppress(OSError):
        print(for_terminal(text), file=sys.stderr, flush=True)  # noqa: T201 - Terminal may be what failed
    return status


def _open_missing_streams() -> None:
    """Point standard streams that the caller closed to nowhere: the next file opened would take their numbers, and
    what a library prints would be written into a suite's ledger.
    """
    for number, name in ((0, "stdin"), (1, "stdout"), (2, "stderr")):
        if getattr(sys, name) is None:
            mode = os.O_RDONLY if number == 0 else os.O_WRONLY
            null = os.open(os.devnull, mode)
            if null != number:
                os.dup2(null, number)
                os.close(null)
            setattr(sys, name, open(number, "r" if number == 0 else "w", encoding="utf-8", closefd=False))  # noqa: SIM115


def _give_up_unwritten() -> None:
    """Drop output that cannot be written, or Python would try again on its way out, and end with 120."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except OSError:
            null = os.open(os.devnull, os.O_WRONLY)
            os.dup2(null, stream.fileno())
            os.close(null)
