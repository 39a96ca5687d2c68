"""A round of training with the confidence regulariser: beta chosen on half of the queries, reported on the other half.

    noisyir bench noise --suite squad_ccr experiment.data.path=../shared/data/squad
    python bench/ccr_beta.py            # the newest bench of the store

SQuAD has no test set that is public, so its dev queries are halved by a digest of their ids.  The test is over the
queries of the second half and the seeds, questions of one paragraph being one draw, and there is one test.
"""

import argparse
import hashlib

import numpy as np
import pyarrow.compute as pc

from noisyir.app.lookup import find_build
from noisyir.engine.runtime import default_home
from noisyir.engine.store import Store
from noisyir.evaluation.significance import crossed_t_test, verdict

PLAIN = "beta_0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="noise_table", help="key of the bench's table; default: the newest")
    asked = parser.parse_args()
    store = Store(default_home() / "store", home=default_home())
    values = store.builds.table(find_build(store, asked.build).ref("bench_values"))
    values = values.sort_by([("query_id", "ascending"), ("seed", "ascending")])
    seeds = len(values["seed"].unique())
    of_arms = {
        name: values.filter(pc.equal(values["method"], name)) for name in sorted(set(values["method"].to_pylist()))
    }
    arms = {name: rows["value"].to_numpy().reshape(-1, seeds) for name, rows in of_arms.items()}
    if PLAIN not in arms:
        raise SystemExit(
            f"{asked.build} compares {', '.join(arms)}: name the build that noisyir bench printed for squad_ccr"
        )
    plain = of_arms[PLAIN]
    queries, documents = plain["query_id"].to_pylist()[::seeds], np.array(plain["group"].to_pylist()[::seeds])
    chooses = np.array([hashlib.sha256(query.encode()).digest()[0] % 2 == 0 for query in queries])
    for name, of_queries in arms.items():
        print(f"{name:<12} {of_queries[chooses].mean():.4f} to choose by, {of_queries[~chooses].mean():.4f} to report")
    best = max((name for name in arms if name != PLAIN), key=lambda name: arms[name][chooses].mean())
    difference = (arms[best] - arms[PLAIN])[~chooses]
    mean, low, high, p_value = crossed_t_test(difference, documents[~chooses])
    said = verdict(low, high, p_value, seeds=seeds)
    print(
        f"\n{best} - {PLAIN}: {mean:+.4f} [{low:+.4f}, {high:+.4f}], p {p_value:.3g}, {len(difference)} queries: {said}"
    )


if __name__ == "__main__":
    main()
