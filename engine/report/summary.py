"""A report in other forms than the page: figures for a program, and a summary for a pull request."""

from __future__ import annotations

import json
import re
from dataclasses import asdict

from .page import ReportText
from .table import Table

# What Markdown, or HTML in it, would read as its own.
_SPECIAL = re.compile(r"([\\`*_{}\[\]<>#|~&])")
# Of what a summary has tables.
_TABLES = (
    "What edits do to ",
    "What one edit alone does to ",
    "How pictures are answered",
    "The second against the first",
)


def report_json(text: ReportText) -> str:
    """All that a report says, in JSON: sentences, tables cell by cell, and the figures behind them."""
    words = {
        "title": text.title,
        "subtitle": text.subtitle,
        "notes": text.notes,
        "findings": [asdict(finding) for finding in text.findings],
        "figures": dict(text.figures),
        "tables": [{"title": one.title, "columns": one.columns, "rows": one.rows} for one in text.tables],
        "remarks": text.remarks,
    }
    return json.dumps({**words, **text.data}) + "\n"


def markdown_summary(text: ReportText) -> str:
    """Findings and the tables of effects and of answers, in GitHub's Markdown."""
    parts = [f"## {_escaped(text.title)}", _escaped(text.subtitle)]
    parts += [f"> {_escaped(note)}" for note in text.notes]
    marked = [(_escaped(one.sentence), "**" if one.certain else "") for one in text.findings]
    parts.append("\n".join(f"- {mark}{sentence}{mark}" for sentence, mark in marked))
    parts += [_table(table) for table in text.tables if table.title.startswith(_TABLES)]
    if text.data.get("suite_digest"):
        parts.append(f"Suite `{text.data['suite_digest']}`")
    return "\n\n".join(filter(None, parts)) + "\n"


def _table(table: Table) -> str:
    rows = [table.columns, (":--", *["--:"] * (len(table.columns) - 1)), *table.rows]
    cells = ["| " + " | ".join(cell if i == 1 else _escaped(cell) for cell in row) + " |" for i, row in enumerate(rows)]
    return "\n".join([f"**{_escaped(table.title)}**", "", *cells])


def _escaped(text: str) -> str:
    """One line of Markdown that says the text, letter by letter."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))
