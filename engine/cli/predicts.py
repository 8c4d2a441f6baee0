"""`counterfactory predicts`: whether painted drops predict real ones."""

from __future__ import annotations

from argparse import Namespace

from ..api.answers import Given
from ..api.options import Caller
from ..api.predicting import FieldPrediction, predict_field
from ..judging.transfer import Bounded, Transfer
from ..report.effects_text import points
from ..report.table import Table
from .commands import with_words
from .terminal import Terminal


def predicts(args: Namespace, terminal: Terminal) -> int:
    models = [Given(model, args.classes, **how) for model, how in with_words(args)]
    with terminal.progress() as on_progress:
        caller = Caller.of(on_progress, terminal.warn)
        prediction = predict_field(args.suite, args.real, models, caller)
    terminal.show(transfers_table(prediction))
    terminal.say(*map(transfer_line, prediction.transfers))
    terminal.finish(prediction.to_json())
    return 0


def transfers_table(prediction: FieldPrediction) -> Table:
    """A row per edit that both sides have."""

    def span(values: tuple[float, ...]) -> str:
        return f"{points(min(values))} … {points(max(values))}"

    rows = tuple(
        (one.name, span(one.painted), span(one.real), _figure(one.rank_correlation), _figure(one.slope))
        for one in prediction.transfers
    )
    return Table(
        f"Painted against real: {len(prediction.models)} models, {prediction.pictures} real pictures of "
        f"{prediction.places} places, points of {prediction.measure}",
        ("edit", "painted", "real", "rank correlation", "slope"),
        rows,
    )


def transfer_line(transfer: Transfer) -> str:
    if transfer.predicts:
        return f"{transfer.name}: models that lose more to painted pictures lose more to real ones"
    return f"{transfer.name}: whether painted drops predict real ones cannot be told from these models"


def _figure(figure: Bounded) -> str:
    if figure.value is None:
        return "-"
    between = "" if figure.low is None or figure.high is None else f" ({figure.low:.2f} … {figure.high:.2f})"
    return f"{figure.value:.2f}{between}"
