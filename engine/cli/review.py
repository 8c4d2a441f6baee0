"""`counterfactory review`: people answer questions about a suite's pictures, and what their answers say."""

from __future__ import annotations

import shlex
from argparse import Namespace
from contextlib import closing
from dataclasses import asdict
from typing import Any
from urllib.parse import urlsplit

from ..api import finished
from ..api.reviews import follow_study, gate_accepts, open_study, study_results, take_answers, wrong_answers
from ..errors import CounterfactoryError
from ..review.answer_book import FILE, AnswerBook
from ..review.answer_tables import write_answers
from ..review.study_results import SuiteFacts
from .check_text import recheck_lines
from .commands import with_words
from .review_text import results_tables
from .terminal import Terminal

_REMARKS = 5  # that are shown


def review(args: Namespace, terminal: Terminal) -> int:
    suite = finished.open(args.suite)
    rows = suite.grouped(args.group_by)
    wrong = _wrong(args, suite, terminal)
    if args.results or args.follow:
        with closing(AnswerBook(args.study or suite.path / FILE, read_only=True)) as book:
            return _results(args, suite, book, SuiteFacts(rows, gate_accepts(suite), wrong), terminal)
    plan = {name: getattr(args, name) for name in ("draw", "by", "sample", "checks", "seed", "per_picture")}
    study = open_study(suite, args.study, rows=rows, questions=args.questions, raters=args.raters, wrong=wrong, **plan)
    with closing(study) as book:
        if args.taken is not None or args.export is not None:
            return _exchange(args, suite, book, terminal)
        if not book.raters:
            book.add_raters(["reviewer"])
        return _serve(args, suite, book, terminal)


def _wrong(args: Namespace, suite: finished.FinishedSuite, terminal: Terminal) -> dict[str, bool] | None:
    if not args.models:
        return None
    if len(args.models) > 1:
        raise CounterfactoryError("review takes one model: name it once")
    ((model, how),) = with_words(args)
    with terminal.callbacks() as calls:
        return wrong_answers(suite, model, classes=args.classes, **how, **calls)


def _exchange(args: Namespace, suite: finished.FinishedSuite, book: AnswerBook, terminal: Terminal) -> int:
    data: dict[str, Any] = {"study": str(book.path), "items": len(book.study.items)}
    if args.taken is not None:
        data["taken"], data["unanswered"] = take_answers(book, args.taken)
        terminal.say(f"{data['taken']:,} answers taken from {args.taken}, {data['unanswered']:,} are empty there")
    if args.export is not None:
        data["rows"] = write_answers(args.export, book.study, book.ratings(), suite.rows, suite.path)
        terminal.say(f"{data['rows']:,} rows written to {args.export}")
    terminal.finish(data)
    return 0


def _serve(args: Namespace, suite: finished.FinishedSuite, book: AnswerBook, terminal: Terminal) -> int:
    from ..review.serving import HOST, ReviewApp, open_server

    address = urlsplit(args.address or "")
    if args.address is not None and not (address.scheme in ("http", "https") and address.netloc):
        raise CounterfactoryError(
            f"--address is where raters reach the page, such as https://x.org, got {args.address!r}"
        )
    app = ReviewApp(book, suite.path, suite.rows, [address.netloc] if address.netloc else [])
    server = open_server(app, args.port)
    base = (args.address or f"http://{HOST}:{server.port}").rstrip("/")
    links = {name: f"{base}/r/{token}/" for name, token in book.raters.items()}
    variants = sum(item.kind == "variant" for item in book.study.items)
    checks = len(book.study.items) - variants
    need = book.study.plan.per_picture
    terminal.say(f"{variants:,} to review, and {checks:,} checks; raters of each: {need}")
    terminal.say(*(f"{name:<10} {link}" for name, link in links.items()))
    terminal.say("Each link is a rater's own. Ctrl-C ends; answers are kept as they are given.")
    terminal.finish({"study": str(book.path), "variants": variants, "checks": checks, "links": links})
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass
    finally:
        server.server_close()
    look = shlex.join(["counterfactory", "review", str(args.suite), "--results"])
    terminal.say(f"{len(book.ratings()):,} answers in {book.path}; see them by: {look}")
    return 0


def _results(
    args: Namespace, suite: finished.FinishedSuite, book: AnswerBook, facts: SuiteFacts, terminal: Terminal
) -> int:
    results = study_results(book, facts, agree=args.agree, without=args.without)
    terminal.show(*results_tables(results))
    terminal.note(*results.notes)
    for rater, image, asked, words in results.remarks[:_REMARKS]:
        terminal.say(f"{rater} on {image}, {asked}: {' '.join(words.split())}")
    if len(results.remarks) > _REMARKS:
        terminal.say(f"{len(results.remarks) - _REMARKS:,} remarks more: --export FILE has all")
    data = {"study": str(book.path), **asdict(results)}
    if args.follow:
        recheck = follow_study(suite, book, results)
        terminal.say(*recheck_lines(recheck, suite.settings()))
        data["followed"] = {"accepted": recheck.accepted, "accepted_before": recheck.accepted_before}
    terminal.finish(data)
    return 0
