"""Artifacts of ingest, and of corruption and hiding in benches."""

from noisyir.base.artifact import BOOL, F32, I32, PAIR, PAIR_KEY, STRING, STRINGS, Artifact

CORPUS = Artifact("corpus", 1, {"doc_id": STRING, "doc_row": I32, "title": STRING, "text": STRING}, ("doc_id",))
QUERIES = Artifact("queries", 1, {"query_id": STRING, "text": STRING, "split": STRING}, ("query_id",))
ANSWERS = Artifact("answers", 1, {"query_id": STRING, "aliases": STRINGS}, ("query_id",))
# `source`: origin of a pair (a package, an article, a log), for rates by source; null if unknown
PAIRS = Artifact("pairs", 2, {**PAIR, "split": STRING, "source": STRING}, PAIR_KEY, nullable=("source",))
QRELS = Artifact("qrels", 1, {**PAIR, "relevance": I32}, PAIR_KEY)
# Wrong documents that the data gives for a query; `score`: by a model, null if unknown
GIVEN_NEGATIVES = Artifact("given_negatives", 1, {**PAIR, "score": F32}, PAIR_KEY, nullable=("score",))
EXCLUDED = Artifact("excluded", 1, {"reason": STRING, "kind": STRING, "id": STRING}, ())
NOISY_PAIRS = Artifact("noisy_pairs", 2, PAIRS.columns, PAIR_KEY, nullable=("source",))
CLEAN_PAIRS = Artifact("clean_pairs", 1, PAIRS.columns, PAIR_KEY, nullable=("source",))  # the oracle's
NOISE_TRUTH = Artifact("noise_truth", 1, {**PAIR, "kind": STRING, "is_noisy": BOOL}, PAIR_KEY)
# Relevant documents without a pair: the truth, which only scoring may read.
# `kind`: positives or near_duplicates; `edit_rate`: share of a near-duplicate's words that were edited
HIDDEN = Artifact("hidden", 1, {**PAIR, "kind": STRING, "edit_rate": F32}, PAIR_KEY, nullable=("edit_rate",))
# The document of each passage, if documents were cut
CUT_PASSAGES = Artifact("cut_passages", 1, {"doc_id": STRING, "document": STRING}, ("doc_id",))
GIVEN_WEIGHTS = Artifact("given_weights", 2, {**PAIR, "weight": F32}, PAIR_KEY)  # the data's own weights
# Earlier rows of a refreshed corpus; null if the text is new
ROW_ORIGINS = Artifact("row_origins", 1, {"doc_row": I32, "earlier_row": I32}, ("doc_row",), nullable=("earlier_row",))
