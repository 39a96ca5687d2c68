"""Tasks: the kinds of model that an experiment can train, and the functions that plan them."""

from typing import ClassVar

from noisyir.base.variants import Variant
from noisyir.methods.plans.method import Method


class Task(Variant):
    """A kind of model that an experiment trains; its settings may stand in a group of its name.

    Attributes:
        pipeline, bench: Functions that plan an experiment and a suite, as `module:function`.
        methods_of: Family of a suite's methods.
        reads_passages: Whether documents may be cut into passages.
    """

    home: ClassVar[str] = __name__
    group: ClassVar[str | None] = "noisyir.tasks"
    named_by_kind: ClassVar[bool] = True
    pipeline: ClassVar[str]
    bench: ClassVar[str]
    methods_of: ClassVar[type[Variant]]
    reads_passages: ClassVar[bool] = True

    @property
    def trained(self) -> tuple[str, ...]:
        """Its own methods; none: the experiment's."""
        return ()

    @property
    def own_labels(self) -> str | None:
        """The name of labels that are wrong by themselves, so that a suite puts in no noise."""
        return None

    @property
    def label_story(self) -> str | None:
        """A sentence on these labels for a model's card."""
        return None


class RetrieverTask(Task, kind="retriever"):
    """A bi-encoder; its settings are the experiment's own."""

    pipeline: ClassVar[str] = "noisyir.methods.plans.retrievers:train_retriever"
    bench: ClassVar[str] = "noisyir.methods.plans.bench:noise_bench"
    methods_of: ClassVar[type[Variant]] = Method
