"""Stages as Prefect tasks: names, retries, logs and progress, and nothing else.

Prefect reads its home and its telemetry switches while it is imported, so they are set here, if nothing has set them,
before a task or a flow imports it.
"""

import os
from pathlib import Path

from noisyir.engine.runtime import default_home

for _name, _value in {
    "PREFECT_HOME": str(default_home() / "prefect"),
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_CLOUD_ENABLE_ORCHESTRATION_TELEMETRY": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
}.items():
    os.environ.setdefault(_name, _value)

Path(os.environ["PREFECT_HOME"]).mkdir(parents=True, exist_ok=True)  # prefect makes the last folder only
