"""Sentences on a run's best system, and against models not worth using, for terminal, pages and cards."""

import shlex

from noisyir.base.pages.cells import signed
from noisyir.evaluation.recommendation import (
    LEXICAL,
    START,
    STATIC,
    Recommendation,
    model_as_is,
    model_of,
    needs_no_training,
)

_WORDS = {LEXICAL: "BM25", START: "the untrained model", STATIC: "the static model"}
_MINILM, _AS_WRITTEN = "minilm", "MiniLM"


def named(system: str) -> str:
    """A system's name in prose."""
    model = model_as_is(system)
    trained = _WORDS.get(model_of(system), model_of(system))
    alone = trained if model is None else f"{_AS_WRITTEN if model == _MINILM else model} as it is"
    return alone if system == model_of(system) else f"{alone}{',' * (model is not None)} with BM25"


def in_short(found: Recommendation) -> str:
    """The best system and its value."""
    return f"best: {named(found.best)}, {found.measure} {found.level(found.best).mean:.3f}{_seeds(found)}"


def best_lines(found: Recommendation) -> list[str]:
    """The best system, its value and how it was chosen; then its gains over the others."""
    best, queries = found.best, len(found.groups)
    level, chosen = found.level(best), found.standings[best].chosen
    by = "the same queries, because no judged dev query was searched for: expect a little less"
    if found.chosen_on != found.told_on:
        by = f"{len(chosen):,} {found.chosen_on} queries ({found.chosen_mean(best):.3f})"
    value = f"{found.measure} {level.mean:.3f} [{level.low:.3f}, {level.high:.3f}]"
    name = best if named(best) in (best, "BM25") else f"{best} ({named(best)})"
    untrained = "; no training needed" if needs_no_training(best) else ""
    untrained += f"; {_not_told_apart(found, found.cheaper)}" if found.cheaper else ""
    lines = [f"{name}: {value} on {queries:,} {found.told_on} queries{_seeds(found)}; chosen by {by}{untrained}"]
    return lines + [
        f"{signed(gain.mean)} [{signed(gain.low)}, {signed(gain.high)}] against {named(other)} ({mean:.3f})"
        for other in found.standings
        if other != best and (needs_no_training(other) or other == model_of(other))
        for gain, mean in [(found.gain(best, other), found.level(other).mean)]
    ]


def _seeds(found: Recommendation) -> str:
    count = found.standings[found.best].told.shape[1]
    return f", mean of {count} seeds" if count > 1 else ""


def reason(found: Recommendation) -> str:
    """The reason for the recommended system, though another one may be above it on the test queries."""
    best, end = found.best, "; no training is needed." if needs_no_training(found.best) else "."
    end += f" {_not_told_apart(found, found.cheaper)}." if found.cheaper else ""
    end += f" {missed(found)}." if found.missed else ""
    if found.chosen_on == found.told_on:
        return f"The same queries chose it and measured it, so expect a little less{end}"
    said = f"{len(found.chosen_groups):,} {found.chosen_on} queries chose it, where it reached "
    said += f"{found.chosen_mean(best):.3f}"
    top = max(found.standings, key=lambda system: found.level(system).mean)
    if top != best:
        gain = found.gain(top, best)
        said += f"; {named(top)} is {signed(gain.mean)} [{signed(gain.low)}, {signed(gain.high)}] on the test queries"
    return said + end


def missed(found: Recommendation) -> str:
    """The number of reported queries that no system answers, and the two kinds of reasons."""
    share = f"{found.missed:,} of {len(found.groups):,} {found.told_on} queries"
    return f"{share} score 0 with every system, as wrong labels and hard queries do"


def _not_told_apart(found: Recommendation, cheap: str) -> str:
    """The reservation that the best system is not significantly better than one that is cheaper."""
    more = not needs_no_training(found.best) and needs_no_training(cheap)  # a trained table may be quicker than MiniLM
    why = "needs no training" if more else "is cheaper to search with"
    above = f"queries put it above {named(cheap)} ({found.chosen_mean(cheap):.3f}), which {why}"
    return f"{len(found.chosen_groups):,} {found.chosen_on} {above}, but do not tell the two apart"


def against(found: Recommendation, system: str, experiment: str, *, exporting: bool = False) -> str | None:
    """The case against a trained system, with the command that uses the best one; None if it is worth using.

    `experiment` is the run's name on the command line.
    """
    if system not in found.standings or needs_no_training(system) or found.is_worth(system):
        return None
    floors = found.short_of(system)
    instead = _instead(found, experiment, exporting=exporting)
    compared = ", ".join(f"{named(floor)} {_compared(found, system, floor)}" for floor in floors)
    others = "systems that need no training" if len(floors) > 1 else f"{named(floors[0])}, which needs no training"
    return (
        f"{named(system)} is not shown to be better than {others}: {found.measure} {found.chosen_mean(system):.3f} on "
        f"{len(found.chosen_groups):,} {found.chosen_on} queries, {compared}. {instead}"
    )


def unusable(found: Recommendation, model: str, experiment: str) -> str | None:
    """The case against exporting a model that is not worth using in a hybrid either; None if it is."""
    return None if found.is_usable(model) else against(found, model, experiment, exporting=True)


def _compared(found: Recommendation, system: str, floor: str) -> str:
    gain = found.margin(system, floor)
    if not gain.mean and not gain.low:
        return "the same on every query"
    return f"{found.chosen_mean(floor):.3f} (gain {signed(gain.mean)} [{signed(gain.low)}, {signed(gain.high)}])"


def _instead(found: Recommendation, experiment: str, *, exporting: bool) -> str:
    system = shlex.quote(f"{experiment}:{found.best}")
    typed = f"export {system}" if exporting and found.best != LEXICAL else f"search {system} 'your question'"
    return f"Use {named(found.best)} ({found.chosen_mean(found.best):.3f}) instead: noisyir {typed}"
