"""A cross-encoder that is trained already."""

from typing import Annotated, Literal

from pydantic import Field

from noisyir.mining.judges.ranker import RelevanceJudge
from noisyir.settings import Location


class CrossEncoderJudge(RelevanceJudge):
    """The same by a cross-encoder that is trained already."""

    kind: Literal["cross_encoder"] = "cross_encoder"
    weights: Location = Field(
        None, description="folder or Hugging Face name of a sequence classifier of one label or two"
    )
    max_len: Annotated[int, Field(ge=8)] = Field(256, description="tokens of query and document together that are read")
