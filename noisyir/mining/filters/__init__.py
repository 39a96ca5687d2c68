"""Filters, a file each: which candidates stay before any sampler sees them, and nothing else.  They combine by `&`.

The equations are on flat arrays (one row a candidate).  s-: score of query and candidate; s+: of query
and positive, both of the given vectors.  What lies exactly on a bound stays.

Source: `mine_hard_negatives` of sentence-transformers 6; Moreira et al. (NV-Retriever), arXiv:2407.15831, section 3.2.
They agree where s+ >= 0.  For several positives the former takes the worst scored: `mine.positive`.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, ClassVar

from pydantic import BeforeValidator

from noisyir.variants import Variant, by_kind

if TYPE_CHECKING:
    from noisyir.mining.candidates import Candidates, Mask


class Filter(Variant):
    """What is not drawn, however likely."""

    home: ClassVar[str] = __name__

    def keeps(self, candidates: "Candidates") -> "Mask":
        """Which candidates stay."""
        raise NotImplementedError


Filters = Annotated[Mapping[str, Filter], BeforeValidator(by_kind)]
"""Filters by kind; `{relative_margin: 0.05}` gives the one setting that a kind has to have, null switches it off."""
