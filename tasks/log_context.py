"""What every line of a run's log says besides its message: which run, step and artifact key, and where MLflow has it.

As fields of the log record (for handlers that write JSON) and as `name=value` behind the message, so that one search
over Prefect's log, or over the workers' files, finds all lines of a run.
"""

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from types import MappingProxyType

_LOGGERS = ("prefect.flow_runs", "prefect.task_runs", "noisyir")
Fact = str | None | Callable[[], str | None]
_facts: ContextVar[Mapping[str, Fact]] = ContextVar("log_context", default=MappingProxyType({}))


class _Adding(logging.Filter):
    def filter(self, record: logging.LogRecord) -> bool:
        facts = current_facts()
        if facts and not hasattr(record, "noisyir"):
            record.noisyir = facts
            record.msg = f"{record.getMessage()}  [{' '.join(f'{name}={value}' for name, value in facts.items())}]"
            record.args = ()
        return True


@contextmanager
def log_context(**facts: Fact) -> Iterator[None]:
    """Add facts to every line logged in the block.  A function is asked at each line; None is left out."""
    token = _facts.set({**_facts.get(), **facts})
    try:
        yield
    finally:
        _facts.reset(token)


def current_facts() -> dict[str, str]:
    """The facts as they are now, for work that another process does: it opens a `log_context` with them."""
    known = {name: fact() if callable(fact) else fact for name, fact in _facts.get().items()}
    return {name: value for name, value in known.items() if value is not None}


for _name in _LOGGERS:
    logging.getLogger(_name).addFilter(_Adding())
