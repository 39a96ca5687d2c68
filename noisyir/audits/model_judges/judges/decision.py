"""An endpoint of decisions, which answers typed questions with probabilities and writes no text."""

import json
from collections.abc import Sequence
from typing import Any, Literal

from noisyir.audits.model_judges.answer import RIGHT, decided
from noisyir.audits.model_judges.judges import Question
from noisyir.audits.model_judges.judges.endpoint import EndpointJudge, QuestionForm
from noisyir.audits.model_judges.prompt import load_prompt


class DecisionEndpoint(EndpointJudge):
    """A decision model: TEI's `/v1/decide`, Jev's `/v1/systemone`, or OpenAI's `/v1/decisions`.

    Source: text-embeddings-inference, docs/source/en/decision_models.md; transformers, cli/serving/systemone.py.
    """

    kind: Literal["decision"] = "decision"

    def forms(self) -> Sequence[QuestionForm]:
        """The one question whether the document is right."""
        return (QuestionForm(load_prompt("decision_v1"), self._body, decided, 0, 0.0),)

    def _body(self, question: Question) -> dict[str, Any]:
        asked = load_prompt("decision_v1").told.strip()
        if self.url.strip().rstrip("/").endswith("/decisions"):
            predicate = {"type": "predicate", "name": RIGHT, "instructions": asked}
            return {"model": self.model, "input": json.dumps(question._asdict()), "questions": [predicate]}
        noul = {"type": "noul", "instructions": asked}
        return {"model": self.model, "state": question._asdict(), "questions": {RIGHT: noul}}
