"""Stages of noisyir in a Prefect flow of one's own: how well does BM25 find the right documents of my pairs?"""

from prefect import flow

from noisyir.flows import stage


@flow
def bm25_of_my_pairs(path: str) -> list[str]:
    """Where the measures of BM25 lie in the store."""
    data = stage("ingest")({"kind": "pairs", "path": path, "hold_out": {"test": 0.2, "dev": 0.2}})
    index = stage("bm25_index")({"engine": "bm25s"}, corpus=data["corpus"])
    found = stage("bm25")(lexical_index=index["lexical_index"], queries=data["queries"])
    measured = stage("score")(run=found["bm25_run"], qrels=data["qrels"], queries=data["queries"])
    return [artifact.path for artifact in measured.values()]


if __name__ == "__main__":
    bm25_of_my_pairs.serve("my-pairs")
