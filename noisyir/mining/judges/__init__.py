"""Judges, a file each: who says which candidates are relevant, so that they are not drawn as negatives.

Only their settings and equations are here; the stage that runs a judge is the one whose settings these are.
"""

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import BeforeValidator

from noisyir.variants import Variant, by_kind


class Judge(Variant):
    """Who keeps candidates from being drawn."""

    home: ClassVar[str] = __name__


Judges = Annotated[Mapping[str, Judge], BeforeValidator(by_kind)]
"""Settings of judges by kind, where they are not the defaults; `mine.judges` names those that are heard."""
