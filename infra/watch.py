"""Starts again what died of `make up`, as often as that is worth it.

usage: python -m infra.watch      NOISYIR_HOME names whose servers; `make up` starts it, `make down` ends it first
"""

import os
import subprocess
import sys
import time
from pathlib import Path

from infra.servers import ROOT
from infra.up import Record

LOOK_SECONDS = 5.0
LONGEST_SECONDS = 300.0  # between two attempts; each waits twice as long as the one before
PEACE_SECONDS = 600.0  # after which an end is the first again


def main() -> None:
    """Watch until `make down`, by which the record goes."""
    path = Path(os.environ["NOISYIR_HOME"]) / "servers" / "running.json"
    wait, last = LOOK_SECONDS, 0.0
    while True:
        time.sleep(wait)
        record = Record.read(path)
        if not record.running:
            return
        dead = [name for name in record.running if not record.alive(name)]
        wait = LOOK_SECONDS if time.monotonic() - last > PEACE_SECONDS else wait
        if dead:
            print(f"{time.strftime('%F %T')} {', '.join(dead)} died: starting again", flush=True)
            subprocess.run([sys.executable, "-m", "infra.up", "up"], cwd=ROOT, check=False)
            last, wait = time.monotonic(), min(2 * wait, LONGEST_SECONDS)


if __name__ == "__main__":
    main()
