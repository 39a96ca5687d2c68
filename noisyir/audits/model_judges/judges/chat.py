"""An endpoint of the OpenAI chat protocol that returns log-probabilities of yes and no, or words."""

from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field, PositiveInt

from noisyir.audits.model_judges.answer import in_words, yes_or_no
from noisyir.audits.model_judges.judges import Question
from noisyir.audits.model_judges.judges.endpoint import EndpointJudge, QuestionForm
from noisyir.audits.model_judges.prompt import load_prompt

_LISTED = 5  # likeliest tokens, as many as every server gives
_YES_OR_NO = 4  # tokens, because some answers begin with a space or a line break


class Chat(EndpointJudge):
    """A language model that gives the probability of yes and no, or a verdict in words."""

    kind: Literal["chat"] = "chat"

    answer: Literal["auto", "probability", "words"] = Field(
        "auto", description="form of the answer; auto: a probability, and words where the endpoint gives none"
    )
    answer_tokens: PositiveInt = Field(300, description="tokens that an answer in words may have")
    json_mode: bool = Field(True, description="send response_format with words, which some servers do not know")

    def forms(self) -> Sequence[QuestionForm]:
        """A probability, words, or one before the other."""
        prompts = load_prompt("yes_no_v1"), load_prompt("v1")
        chance = QuestionForm(prompts[0], self._for_a_chance, yes_or_no, _YES_OR_NO, 1.0)
        words = QuestionForm(prompts[1], self._for_words, in_words, self.answer_tokens, 60.0)
        return {"auto": (chance, words), "probability": (chance,), "words": (words,)}[self.answer]

    def _for_a_chance(self, question: Question) -> dict[str, Any]:
        listed = {"max_tokens": _YES_OR_NO, "logprobs": True, "top_logprobs": _LISTED}
        return self._body("yes_no_v1", question) | listed

    def _for_words(self, question: Question) -> dict[str, Any]:
        asked = {"max_tokens": self.answer_tokens}
        asked_in_json = {"response_format": {"type": "json_object"}} if self.json_mode else {}
        return self._body("v1", question) | asked | asked_in_json

    def _body(self, version: str, question: Question) -> dict[str, Any]:
        messages = load_prompt(version).messages(*question)
        return {"model": self.model, "temperature": 0, "stream": False, "messages": messages}
