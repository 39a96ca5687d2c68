"""What the front door says of itself is true: every name is documented, and every example runs."""

import doctest
import inspect
import pydoc

import pytest

import noisyir
from noisyir.detection import noise_detector as detector
from noisyir.detection import rate
from noisyir.front.api import check, mine, train
from noisyir.front.api import label_audit as audit
from noisyir.methods.npc import noisy_pair_loss

MODULES = (audit, check, detector, mine, noisy_pair_loss, rate, train)
NAMES = [name for name in noisyir.__all__ if name != "__version__"]
EXAMPLES = {
    "audit": noisyir.audit, "train": noisyir.train, "mine": noisyir.mine, "NoiseDetector": noisyir.NoiseDetector,
    "NoisyPairLoss": noisyir.losses.NoisyPairLoss, "check": noisyir.check,
}  # fmt: skip


@pytest.mark.parametrize("name", list(EXAMPLES))
def test_the_example_in_a_names_help_runs(name):
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner(optionflags=doctest.ELLIPSIS)
    (example,) = finder.find(EXAMPLES[name], name, globs={"noisyir": noisyir})
    assert example.examples
    said: list[str] = []
    runner.run(example, out=said.append)
    assert runner.failures == 0, "".join(said)


def test_help_is_a_tour_of_every_name():
    tour = pydoc.render_doc(noisyir, renderer=pydoc.plaintext)
    for name in ("audit", "check", "train", "mine", "NoiseDetector", "losses.NoisyPairLoss"):
        assert f"noisyir.{name}" in noisyir.__doc__
    assert "A tour" in tour


def test_dir_offers_what_there_is_before_it_is_loaded():
    assert set(noisyir.__all__) <= set(dir(noisyir))
    for name in noisyir.__all__:
        assert getattr(noisyir, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'aud'"):
        noisyir.aud  # noqa: B018 - asking is what is tested


def test_every_public_name_has_a_docstring_and_types():
    faults = []
    for module in MODULES:
        for name, thing in vars(module).items():
            if name.startswith("_") or getattr(thing, "__module__", None) != module.__name__:
                continue
            parts = (
                {name: thing, **{f"{name}.{part}": value for part, value in vars(thing).items()}}
                if inspect.isclass(thing)
                else {name: thing}
            )
            faults += [part for part, value in parts.items() if callable(value) and not _is_whole(part, value)]
    assert not faults


def _is_whole(name, thing):
    private = name.split(".")[-1].startswith("_")
    return private or bool(inspect.getdoc(thing))
