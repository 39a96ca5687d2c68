"""A round of training with the confidence regulariser: beta chosen on half of the queries, reported on the other half.

    noisyir bench noise --suite squad_ccr experiment.data.path=../shared/data/squad
    python bench/ccr_beta.py            # the newest bench of the store

SQuAD has no test set that is public, so its dev queries are halved by a digest of their ids.  A value is a query's mean
over the seeds; the paired t-test is over the queries of the second half, and there is one test.
"""

import argparse
import hashlib

import numpy as np
import pyarrow.compute as pc

from noisyir.app.lookup import find_build
from noisyir.engine.runtime import default_home
from noisyir.engine.store import Store
from noisyir.engine.tables import read_parts
from noisyir.eval.significance import bootstrap_means, paired_t_test, percentile_interval

PLAIN = "beta_0"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("build", nargs="?", default="noise_table", help="key of the bench's table; default: the newest")
    asked = parser.parse_args()
    store = Store(default_home() / "store", home=default_home())
    values = read_parts(store.fs, store.parts(find_build(store, asked.build).ref("bench_values")))
    means = values.group_by(["method", "query_id"]).aggregate([("value", "mean")]).sort_by("query_id")
    arms = {
        name: means.filter(pc.equal(means["method"], name))["value_mean"].to_numpy()
        for name in sorted(means["method"].unique().to_pylist())
    }
    if PLAIN not in arms:
        raise SystemExit(
            f"{asked.build} compares {', '.join(arms)}: name the build that noisyir bench printed for squad_ccr"
        )
    queries = sorted(means["query_id"].unique().to_pylist())
    chooses = np.array([hashlib.sha256(query.encode()).digest()[0] % 2 == 0 for query in queries])
    for name, of_queries in arms.items():
        print(f"{name:<12} {of_queries[chooses].mean():.4f} to choose by, {of_queries[~chooses].mean():.4f} to report")
    best = max((name for name in arms if name != PLAIN), key=lambda name: arms[name][chooses].mean())
    difference = (arms[best] - arms[PLAIN])[~chooses]
    resampled = bootstrap_means(difference[:, None], 10_000, np.random.default_rng(0))
    low, high = percentile_interval(resampled, 0.95)[:, 0]
    p_value = paired_t_test(difference[:, None])[0]
    interval = f"[{low:+.4f}, {high:+.4f}]"
    print(f"\n{best} - {PLAIN}: {difference.mean():+.4f} {interval}, p {p_value:.3g}, {len(difference)} queries")


if __name__ == "__main__":
    main()
