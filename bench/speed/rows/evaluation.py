"""Measures of a made-up run, from two Parquet files to a value for each query: nDCG@10, RR, R@100 and AP."""

from typing import ClassVar

from bench.speed.row import Line, Row, Stopwatch, Taken, Work

_DEPTH, _JUDGED, _SEED = 100, 5, 0


class Evaluation(Row):
    lines = (
        Line("evaluation", "noisyir", "ranx", "ranx", at_most=1.1, unit="queries"),
        Line("evaluation", "noisyir", "pytrec_eval", "pytrec_eval", at_most=1.1, unit="queries"),
    )
    size = 4_000
    turns = 3
    reads_texts = False
    needs: ClassVar = {"ranx": ("ranx",), "pytrec_eval": ("pytrec_eval",)}
    grows = True

    def prepare(self, work: Work) -> None:
        """A run of 100 documents a query and five judged ones, most of them in the run."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.parquet as pq

        rng, many = np.random.default_rng(_SEED), work.size
        documents = np.stack([rng.permutation(4 * _DEPTH)[:_DEPTH] for _ in range(many)])
        right = np.stack([rng.permutation(2 * _DEPTH)[:_JUDGED] for _ in range(many)])
        scores = -np.sort(-rng.random((many, _DEPTH)), axis=1)
        run = {"rank": np.tile(np.arange(1, _DEPTH + 1, dtype=np.int32), many), "score": scores.ravel()}
        for name, ids, more in (
            ("run", documents, run),
            ("qrels", right, {"relevance": np.ones(right.size, np.int64)}),
        ):
            query_ids = np.repeat([f"q{number:06}" for number in range(many)], ids.shape[1])
            table = {"query_id": query_ids, "doc_id": [f"d{number}" for number in ids.ravel()], **more}
            pq.write_table(pa.table(table), work.folder / f"{name}.parquet")

    def noisyir(self, work: Work) -> Taken:
        import ir_measures  # noqa: F401 - loading packages is not evaluating
        import pyarrow.parquet as pq

        from noisyir.retrieval.measures import judged, per_query, ranked

        for _ in range(2):  # the first loads what is loaded at first use
            with Stopwatch() as watch:
                run, qrels = (pq.read_table(work.folder / f"{name}.parquet") for name in ("run", "qrels"))
                judgements = judged(qrels, run["query_id"].unique().to_pylist())
                found = per_query(ranked(run, list(judgements)), judgements, ["nDCG@10", "RR", "R@100", "AP"])
        return watch.taken(items=work.size, mean=sum(found["value"].to_pylist()) / len(found))

    def ranx(self, work: Work) -> Taken:
        import pyarrow.parquet as pq
        from ranx import Qrels, Run, evaluate

        names = ["ndcg@10", "mrr", "recall@100", "map"]
        for _ in range(2):  # the first compiles
            with Stopwatch() as watch:
                found = [pq.read_table(work.folder / f"{name}.parquet").to_pandas() for name in ("qrels", "run")]
                qrels, run = (table.astype({"query_id": object, "doc_id": object}) for table in found)
                columns = {"q_id_col": "query_id", "doc_id_col": "doc_id"}
                judged = Qrels.from_df(qrels, score_col="relevance", **columns)
                ranked = Run.from_df(run, score_col="score", **columns)
                means = evaluate(judged, ranked, names, make_comparable=True)
        return watch.taken(items=work.size, mean=float(sum(means.values())) / len(names))

    def pytrec_eval(self, work: Work) -> Taken:
        import pyarrow.parquet as pq
        import pytrec_eval

        names = {"ndcg_cut_10", "recip_rank", "recall_100", "map"}
        with Stopwatch() as watch:
            run, qrels = ({}, {})
            for into, name, column in ((run, "run", "score"), (qrels, "qrels", "relevance")):
                table = pq.read_table(work.folder / f"{name}.parquet")
                rows = zip(*(table[one].to_pylist() for one in ("query_id", "doc_id", column)), strict=True)
                for query_id, doc_id, value in rows:
                    into.setdefault(query_id, {})[doc_id] = value
            found = pytrec_eval.RelevanceEvaluator(qrels, names).evaluate(run)
        means = [sum(values.values()) / len(values) for values in found.values()]
        return watch.taken(items=work.size, mean=sum(means) / len(means))
