"""Questions on capitals: passages that answer them, passages that only hold the answer, and passages without it."""

from noisyir.data.artifacts import ANSWERS, CORPUS, QRELS, QUERIES
from noisyir.retrieval.artifacts import BM25_RUN
from tests.world import table

LONG = "filler words go on " * 600 + "and end with Oslo"  # more than 10,000 characters
CORPUS_ROWS = [
    ("p0", 0, "France", "The capital of France is Paris, on the Seine."),
    ("p1", 1, "", "Paris Hilton visited paris in spring."),
    ("p2", 2, "", "The capital of Spain lies on the Manzanares."),
    ("p3", 3, "", "Bras\u00edlia is the capital of Brazil since 1960."),
    ("p4", 4, "Oslo", LONG),
    ("p5", 5, "", "Oslo"),
    ("p6", 6, "Paris", "The capital city has many bridges on the Seine."),
]
QUESTIONS = {
    "q0": ("What is the capital of France?", "train", ["Paris", "city of Paris"]),
    "q1": ("What is the capital of Brazil?", "train", ["Brasi\u0301lia"]),
    "q2": ("What is the capital of Norway?", "train", ["Oslo"]),
    "q3": ("What has no answer?", "train", []),
    "q4": ("What is no word?", "train", [" ", "\x00"]),
    "q5": ("What is the capital of Spain?", "train", ["Madrid"]),
    "q6": ("What is never found?", "train", ["Paris"]),
    "v0": ("Which city lies on the Seine?", "dev", ["Paris"]),
}
RUN = {
    "q0": ["p0", "p1", "p2", "p6"],
    "q1": ["p3", "p2"],
    "q2": ["p4", "p5", "p0"],
    "q3": ["p0"],
    "q4": ["p1"],
    "q5": ["p2", "p0"],
    "v0": ["p6", "p0"],
}
TABLES = {
    "corpus": table(CORPUS, CORPUS_ROWS),
    "queries": table(QUERIES, [(name, text, split) for name, (text, split, _) in QUESTIONS.items()]),
    "answers": table(ANSWERS, [(name, aliases) for name, (*_, aliases) in QUESTIONS.items() if name != "q3"]),
    "run": table(BM25_RUN, [(q, d, n, 9.0 - n) for q, docs in RUN.items() for n, d in enumerate(docs, 1)]),
}
QRELS_TABLE = table(QRELS, [("q0", "p0", 1), ("q1", "p3", 1), ("q2", "p4", 1), ("q2", "p5", 2), ("q5", "p2", 0)])
