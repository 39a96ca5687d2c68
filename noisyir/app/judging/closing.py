"""What a session came to, in words for a terminal and for the page's end."""

from noisyir.app.judging.learning import Known
from noisyir.app.judging.session import JudgingSession
from noisyir.auditing.keeping import Keeping


def summary(session: JudgingSession, command: str, wrong: float | None = None) -> str:
    """The file, what is known now, and the command that uses it.

    command: audits the same pairs by the answers.  wrong: say how many pairs to keep so that at most this share of them
    is wrong.
    """
    own = session.journal.latest().get(session.judge, {})
    if not own:
        return f"{session.judge} judged nothing."
    known = session.learnt.known
    lines = [f"{len(own):,} pairs judged by {session.judge}: {session.journal.path}", *told(known)]
    if wrong is not None:
        lines.append(told_guarantee(known.keeping(len(session.pairs.ids)), wrong))
    return "\n".join([*lines, "", "To use the answers, with --apply to clean the pairs by them:", f"  {command}"])


def told(known: Known) -> list[str]:
    """What judgements tell, a line each."""
    lines = []
    if known.rate:
        lines.append(f"wrong pairs    {known.rate} at 95 %, by {known.sampled:,} pairs drawn at random")
    if known.narrower:
        lines.append(f"               {known.narrower}")
    if known.unlearnt:
        lines.append(f"order          AUROC {_plain(known.unlearnt)} without judgements")
    if known.order:
        lines.append(f"               AUROC {_plain(known.order)} as the judgements teach it, cross-validated")
    if known.advice:
        lines.append(f"               {known.advice}")
    return lines


def told_guarantee(keeping: Keeping, wrong: float) -> str:
    """How many pairs to keep so that at most the share `wrong` of them is wrong, a line."""
    return f"guarantee      {keeping.told(wrong)}"


def _plain(interval: tuple[float, float, float]) -> str:
    value, low, high = interval
    return f"{value:.3f} [{low:.3f}, {high:.3f}]"
