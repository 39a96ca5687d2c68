"""A model's judgements as lines of its own file."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from noisyir.base.errors import StoreError
from noisyir.detection.calibration.queue import Draw

MODEL_JUDGEMENTS = "model_judgements.jsonl"


class ModelJudgement(BaseModel):
    """One line.

    Attributes:
        p_wrong: The judge's probability that the pair is wrong; None if it gave a word alone.
        weight: Number of pairs that a randomly drawn one represents.
        at: Time of the answer, ISO 8601, UTC.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    query_id: str
    doc_id: str
    verdict: Literal["wrong", "clean", "unclear"]
    p_wrong: float | None = None
    judge: str
    draw: Draw
    weight: float | None
    replacement: str | None
    reason: str
    at: str


def write_judgements(judgements: Iterable[ModelJudgement], path: Path) -> None:
    """Replace the file atomically.

    Raises:
        StoreError: If it cannot be written.
    """
    lines = (json.dumps(one.model_dump(), ensure_ascii=False) + "\n" for one in judgements)
    new = path.with_name(f".{path.name}.new")
    with StoreError.wrapping("audits.cannot_write", path=path):
        path.parent.mkdir(parents=True, exist_ok=True)
        new.write_text("".join(lines), encoding="utf-8")
        new.replace(path)
