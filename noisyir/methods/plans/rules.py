"""Settings of training by the number of pairs and the kind of model."""

from typing import Any, NamedTuple

from noisyir.data.formats import COUNTED

MANY = COUNTED  # pairs from which on the first rule for the static backbone holds
_UPPER_RATE = 1e-4  # of a transformer's upper layers, by dev: benchmarks/training.md


class Rule(NamedTuple):
    """Settings of training with at least this many pairs; a rate of None is the default of encoders."""

    pairs: int
    epochs: int
    batch_size: int
    learning_rate: float | None

    @property
    def settings(self) -> dict[str, Any]:
        """The same as settings of `train`."""
        rate = {} if self.learning_rate is None else {"learning_rate": self.learning_rate}
        return {**rate, "epochs": self.epochs, "batch_size": self.batch_size}


# Chosen by dev MRR@10 on SQuAD.  12,000 pairs, 10 epochs: .558 in batches of 128, .555 of 256, .550 of 512; 1,500
# pairs: the second of 20 epochs was the best (.715 in batches of 128; .705 of 32), which patience finds.
_RULES = {"static": (Rule(MANY, 6, 512, 3e-3), Rule(0, 10, 128, 3e-3)), "transformer": (Rule(0, 3, 64, None),)}


def rule_for(backbone: str, pairs: int, *, upper: bool = False) -> Rule:
    """The rule for training a model of this kind, or its upper layers alone, on this number of pairs."""
    found = next(rule for rule in _RULES[backbone] if pairs >= rule.pairs)
    return found._replace(learning_rate=_UPPER_RATE) if upper else found
