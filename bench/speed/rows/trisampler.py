"""The build of negatives by TriSampler beside that by SimANS: search, candidates and mine, on the same vectors."""

from typing import Any

from bench.speed.row import Line, Row, Stopwatch, Taken, Work
from bench.speed.texts import Texts

_PASSAGES_A_QUERY, _NEGATIVES = 4, 15


class Trisampler(Row):
    lines = (Line("TriSampler build", "trisampler", "simans", "own SimANS", at_most=1.1, unit="queries"),)
    size = 20_000
    turns = 3

    def prepare(self, work: Work) -> None:
        from bench.speed.stages import build, training_tables

        tables = training_tables(Texts.read(work.texts), work.size, work.size // _PASSAGES_A_QUERY)
        for kind in ("simans", "trisampler"):
            build(_plan(kind, tables), _store(work), set())

    def simans(self, work: Work) -> Taken:
        return _built(work, "simans")

    def trisampler(self, work: Work) -> Taken:
        return _built(work, "trisampler")


def _built(work: Work, kind: str) -> Taken:
    from bench.speed.stages import build, load_packages

    plan, store = _plan(kind), _store(work)
    load_packages()
    with Stopwatch() as watch:
        _, seconds = build(plan, store, {"search", "candidates", "mine"})
    return watch.taken(items=work.size // _PASSAGES_A_QUERY, stages=seconds)


def _store(work: Work) -> Any:
    from noisyir.engine.store import Store

    return Store(work.folder / "store", home=work.folder)


def _plan(kind: str, tables: Any = None) -> Any:
    from bench.speed.stages import from_texts_to_negatives
    from noisyir.mining.settings import MineParams

    mine = MineParams(rank_to=100, per_query=_NEGATIVES, sampler={"kind": kind, "scale": 20.0})
    return from_texts_to_negatives(mine, tables)
