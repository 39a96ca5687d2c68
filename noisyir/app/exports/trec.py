"""Export of rankings and judgements for trec_eval: one run per system, and the judgements once."""

import shutil
from pathlib import Path

from noisyir.app.lookup import finished_comparison
from noisyir.engine.store import Store
from noisyir.evaluation.recommendation import scored_systems

SUFFIX = "-trec"


def export(store: Store, name: str, target: Path, licence: str | None) -> str:
    """Write `SYSTEM.SPLIT.run` and `SPLIT.qrels`, as scored."""
    run = finished_comparison(store, name)
    target.mkdir(parents=True)
    for system, scored in scored_systems(store, run.results["comparison"]).items():
        for file in sorted(store.builds.folder(store.builds.meta(scored).ref("trec")).iterdir()):
            shutil.copyfile(file, target / (file.name if file.suffix == ".qrels" else f"{system}.{file.name}"))
    runs = sorted(file.name for file in target.glob("*.run"))
    return (
        f"{target}: {', '.join(runs)}\nir_measures {target}/{runs[-1].split('.')[-2]}.qrels {target}/{runs[-1]} nDCG@10"
    )
