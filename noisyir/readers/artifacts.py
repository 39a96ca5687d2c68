"""Reading artifacts: distantly labelled answer spans, readers, their confidences and their answers.

Offsets count characters of the passage's `text`, end exclusive; titles are not searched for answers.
"""

from noisyir.base.artifact import BOOL, F32, F64, I32, PAIR, PAIR_KEY, RUN, STRING, Artifact

_SPAN = {**PAIR, "start": I32, "end": I32}
_SPAN_KEY = (*PAIR_KEY, "start", "end")

# Judged relevant documents as a run: the passages for close-domain reading.
GOLD_RUN = Artifact("gold_run", 1, RUN, PAIR_KEY)
# Answer spans in a question's passages.  `answer`: the matched text; `score`: the passage's score in the run, the basis
# of initial confidences.
SPANS = Artifact("spans", 1, {**_SPAN, "answer": STRING, "score": F32}, _SPAN_KEY)
# The passages to read for each question.
PASSAGES = Artifact("passages", 1, {**RUN, "has_answer": BOOL}, PAIR_KEY)
# Passages similar to one with the answer, but without it.
CONFUSING = Artifact("confusing", 1, {**PAIR, "confusing": STRING, "rank": I32, "score": F32}, (*PAIR_KEY, "confusing"))
READER = Artifact("reader", 1)  # an encoder and a span head as safetensors, the tokenizer, and reader.json
# Confidence in the label of each instance; sums to 1 per question.  Update 0 is the initialisation.
# `chance`: the span's share among its passage's best, which decides the counterfactual ones; null: not read yet.
CONFIDENCES = Artifact(
    "confidences", 1, {**_SPAN, "update": I32, "value": F32, "chance": F32}, (*_SPAN_KEY, "update"), ("chance",)
)
# A question's best spans over all of its passages, best first.
READINGS = Artifact(
    "readings", 1, {"query_id": STRING, "rank": I32, **_SPAN, "answer": STRING, "score": F32}, ("query_id", "rank")
)
# How well confidences separate instances in relevant passages from the others.
_QUALITY_KEY = {"system": STRING, "update": I32, "measure": STRING}
CONFIDENCE_QUALITY = Artifact("confidence_quality", 1, {**_QUALITY_KEY, "value": F64}, tuple(_QUALITY_KEY))
