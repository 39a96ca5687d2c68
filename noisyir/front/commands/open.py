"""`noisyir open`: the page of the last run of an experiment, or of the last audit of a file."""

from __future__ import annotations

import webbrowser
from typing import Annotated

from noisyir.base.errors import StoreError
from noisyir.front.commands import StoreUrl, argument, experiment_names, flag, open_store


def run(
    name: Annotated[str, argument("NAME", "an experiment, or an audited file", experiment_names)],
    audit: Annotated[bool, flag("--audit", "the page of the audit, where there is a report, too")] = False,
    store: StoreUrl = None,
) -> int:
    """Open the report of an experiment, or the page of an audit.

    Without a display its place is printed alone.

    example: noisyir open demo
    """
    from noisyir.app.lookup import kept_by_run, runs_of
    from noisyir.audits.judging.server import has_display

    opened = open_store(store)
    for artifact, file in [("audit_files", "audit.html")] if audit else _PAGES:
        if (meta := kept_by_run(opened, name, artifact)) is not None:
            page = opened.builds.folder(meta.ref(artifact)) / file
            print(page)
            if has_display():
                webbrowser.open(page.as_uri())
            return 0
    raise StoreError(
        "front.no_page", name=name, url=opened.url, runs_of=runs_of(opened, name, "audit" if audit else "report")
    )


_PAGES = [("report", "report.html"), ("audit_files", "audit.html")]
