"""Code of the registered reader, stored by MLflow next to the weights: question and passage in, best span out.

It reads like the `read` stage: the question's first tokens with each window of the passage. Loading needs only the
pinned requirements, not noisyir. Nothing is unpickled: the weights are safetensors.
"""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, TypedDict

from mlflow.models import set_model
from mlflow.pyfunc.model import PythonModel, PythonModelContext
from pydantic import BaseModel

Span = tuple[float, int, int]


class QuestionRow(BaseModel):
    """A question, and a passage without its title."""

    question: str
    passage: str


class AnswerRow(TypedDict):
    """The best span, its character range (end exclusive), and its score; "" without a score if there is none."""

    answer: str
    start: int
    end: int
    score: float | None


class PyfuncReader(PythonModel):
    """An extractive reader; span scores (start + end logit) are comparable across a question's passages."""

    def load_context(self, context: PythonModelContext) -> None:
        """Load tokenizer and weights, and determine how the tokenizer joins two texts."""
        import torch
        from tokenizers import Tokenizer
        from transformers import AutoModelForQuestionAnswering

        folder = Path(context.artifacts["reader"])
        settings = json.loads((folder / "reader.json").read_text())
        self.max_len, self.question_max_len = settings["max_len"], settings["question_max_len"]
        self.tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
        self.tokenizer.no_padding()
        self.tokenizer.no_truncation()
        self.model = AutoModelForQuestionAnswering.from_pretrained(
            folder, use_safetensors=True, dtype=torch.float32, local_files_only=True, trust_remote_code=False
        ).eval()
        joined = self.tokenizer.encode("a", "a")
        ones, twos = ([n for n, side in enumerate(joined.sequence_ids) if side == which] for which in (0, 1))
        self.before, self.after = joined.ids[: ones[0]], joined.ids[twos[-1] + 1 :]
        self.between = joined.ids[ones[-1] + 1 : twos[0]]
        kinds = joined.type_ids
        self.types = kinds[0], kinds[ones[0]], kinds[twos[0] - 1], kinds[twos[0]], kinds[-1]

    def predict(
        self, context: PythonModelContext, model_input: list[QuestionRow], params: dict[str, Any] | None = None
    ) -> list[AnswerRow]:
        """Return the best answer in each passage."""
        settings = {"max_answer_len": 30, "stride": 128, **(params or {})}
        return [self._answer(asked, settings["max_answer_len"], settings["stride"]) for asked in model_input]

    def _answer(self, asked: QuestionRow, max_answer_len: int, stride: int) -> AnswerRow:
        question = self.tokenizer.encode(asked.question, add_special_tokens=False).ids[: self.question_max_len]
        passage = self.tokenizer.encode(asked.passage, add_special_tokens=False)
        room = self.max_len - len(self.before + self.between + self.after) - len(question)
        spans = (
            (score, passage.offsets[start + first][0], passage.offsets[start + last][1])
            for start in _window_starts(len(passage.ids), room, stride)
            for score, first, last in self._spans(question, passage.ids[start : start + room], max_answer_len)
        )
        visible = (span for span in spans if asked.passage[span[1] : span[2]].strip())
        best = max(visible, key=lambda span: span[0], default=None)
        if best is None:
            return {"answer": "", "start": 0, "end": 0, "score": None}
        score, start, end = best
        text = asked.passage[start:end]
        start += len(text) - len(text.lstrip())
        return {"answer": text.strip(), "start": start, "end": start + len(text.strip()), "score": score}

    def _spans(self, question: list[int], window: list[int], longest: int) -> Iterator[Span]:
        """Return (score, first token, last token) of the window's spans, the best for each first token."""
        import torch

        parts = (self.before, question, self.between, window, self.after)
        inputs = {"input_ids": torch.tensor([[token for part in parts for token in part]])}
        if getattr(self.model.config, "type_vocab_size", 0) > 1:
            types = [kind for kind, part in zip(self.types, parts, strict=True) for _ in part]
            inputs["token_type_ids"] = torch.tensor([types])
        begin = len(self.before + question + self.between)
        with torch.inference_mode():
            found = self.model(**inputs)
        start, end = (logits[0, begin : begin + len(window)] for logits in (found.start_logits, found.end_logits))
        for first in range(len(window)):
            ends = end[first : first + longest]
            last = int(ends.argmax())
            yield float(start[first] + ends[last]), first, first + last


def _window_starts(length: int, room: int, stride: int) -> list[int]:
    """Return the starts of windows of `room` tokens that share `stride`, at most half; the last ends the passage."""
    if length <= room:
        return [0] if length else []
    return [*range(0, length - room, room - min(stride, room // 2)), length - room]


set_model(PyfuncReader())
