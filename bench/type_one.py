"""How often the bench, a comparison and the gate call two equal ways different, by simulation.

    python -m bench.type_one --tests 2000          # prints two tables and writes benchmarks/type_one.json and gate.json

Two methods whose expectation is equal are trained under a few seeds and ranked by the same queries.  Each seed shifts a
method's mean by its own luck (standard deviation 0.005), each method suits some documents better than the other does,
which all questions of a document feel, and each model ranks some questions otherwise.
"""

import argparse
from collections.abc import Callable, Sequence

import numpy as np
from jaxtyping import Float, Int

from bench.tables import record
from noisyir.evaluation.bench import CellBlock, summarise
from noisyir.evaluation.promotion import VersionMetrics, rule
from noisyir.evaluation.settings import PromoteParams
from noisyir.evaluation.significance import crossed_t_test

SEED_SPREAD = 0.005
GATE = PromoteParams(min_gain=0.0)
_RECIPROCAL_RANKS = 1 / np.array([1, 1, 1, 2, 2, 3, 4, 5, 10, np.inf, np.inf])
_BENCH_CLAIM = "At a nominal 5 %, equal methods are called different in about 5 % of comparisons, seeds counted."
_GATE_CLAIM = "Of equal recipes the gate promotes 2.5 % at most, however many are tried one after another."
Values = Float[np.ndarray, "method query seed"]
Documents = Int[np.ndarray, " query"]
Test = Callable[[Values, Documents], float]


def equal_methods(
    rng: np.random.Generator,
    queries: int,
    seeds: int,
    asked_of_each: int,
    *,
    methods: int = 2,
    spread: float = SEED_SPREAD,
) -> tuple[Values, Documents]:
    """Values of equal methods, and the document of each query."""
    documents = np.arange(queries) // asked_of_each
    base = rng.choice(_RECIPROCAL_RANKS, (1, queries, 1))
    suits = rng.normal(0, 0.06, (methods, documents[-1] + 1))[:, documents, None]
    moved = rng.random((methods, queries, seeds)) < 0.15
    other = rng.choice(_RECIPROCAL_RANKS, (methods, queries, seeds))
    luck = rng.normal(0, spread, (methods, 1, seeds))
    return np.where(moved, other, base) + suits + luck, documents


def shares_called_different(
    tests: int, by: Sequence[Test], *, queries: int, seeds: int, asked_of_each: int = 1, spread: float = SEED_SPREAD
) -> list[float]:
    """In percent, of so many comparisons of equal methods at a nominal 5 %, by each test."""
    rng = np.random.default_rng([queries, seeds, asked_of_each])
    drawn = (equal_methods(rng, queries, seeds, asked_of_each, spread=spread) for _ in range(tests))
    found = [[test(values, documents) < 0.05 for test in by] for values, documents in drawn]
    return [float(share) for share in 100 * np.mean(found, axis=0)]


def by_the_bench(values: Values, documents: Documents) -> float:
    """The p-value of the noise bench's table, before correction."""
    ids = tuple(str(number) for number in range(values.shape[1]))
    block = CellBlock("uniform", 0.5, "RR@10", "dev", ("dpr", "npc"), ids, documents, values.transpose(0, 2, 1))
    return float(summarise([block], baseline="dpr").to_pylist()[1]["p_value"])


def over_queries_alone(values: Values, _: Documents) -> float:
    """The p-value that takes the seeds for granted: each query's value is its mean over them."""
    return crossed_t_test((values[0] - values[1]).mean(axis=1, keepdims=True)).p_value


def share_promoted(tries: int, challengers: int, *, queries: int, seeds: int, asked_of_each: int = 1) -> float:
    """Of so many registries, the share that ever promotes one of several challengers as good as their champion."""
    rng = np.random.default_rng([challengers, queries, seeds, asked_of_each])
    about = {"queries": queries, "seeds": seeds, "asked_of_each": asked_of_each}
    return float(np.mean([_promoted_ever(rng, challengers, **about) for _ in range(tries)]))


def _promoted_ever(rng: np.random.Generator, challengers: int, queries: int, seeds: int, asked_of_each: int) -> bool:
    values, documents = equal_methods(rng, queries, seeds, asked_of_each, methods=challengers + 1)
    ids = [f"q{number}" for number in range(queries)]
    groups = {query_id: f"d{document}" for query_id, document in zip(ids, documents, strict=True)}
    known = [
        VersionMetrics(str(version), "made", "same", f"recipe {version}", _by_seed(of_one, ids), groups)
        for version, of_one in enumerate(values)
    ]
    return any(rule(one, known[0], GATE, look=look).promoted for look, one in enumerate(known[1:], 1))


def _by_seed(values: Float[np.ndarray, "query seed"], ids: list[str]) -> dict[str, dict[str, float]]:
    return {str(seed): dict(zip(ids, column.tolist(), strict=True)) for seed, column in enumerate(values.T)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tests", type=int, default=2000, help="comparisons of each size")
    tests = parser.parse_args().tests
    rows = [["queries", "of one document", "seeds", "over queries and seeds", "over queries alone, as before"]]
    for queries in (500, 2000, 6980):
        for asked_of_each in (1, 4):
            for seeds in (3, 5):
                about = {"queries": queries, "seeds": seeds, "asked_of_each": asked_of_each}
                found = shares_called_different(tests, (by_the_bench, over_queries_alone), **about)
                rows.append([f"{queries:,}", str(asked_of_each), str(seeds), *(f"{share:.1f} %" for share in found)])
                print(rows[-1], flush=True)
    record("type_one", rows, tests=tests, claim=_BENCH_CLAIM)
    rows = [["queries", "of one document", "seeds", "one challenger is promoted", "any of ten is"]]
    for queries, asked_of_each, seeds in ((500, 1, 3), (500, 4, 3), (2000, 1, 3), (2000, 1, 5)):
        about = {"queries": queries, "seeds": seeds, "asked_of_each": asked_of_each}
        found = [share_promoted(tests // count, count, **about) for count in (1, 10)]
        rows.append([f"{queries:,}", str(asked_of_each), str(seeds), *(f"{100 * share:.1f} %" for share in found)])
        print(rows[-1], flush=True)
    record("gate", rows, tests=tests, claim=_GATE_CLAIM)


if __name__ == "__main__":
    main()
