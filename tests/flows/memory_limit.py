"""What a container's host does: runs a flow run, and kills it with exit code 137 when it uses more than MEMORY_LIMIT.

usage: MEMORY_LIMIT=600Mi python memory_limit.py
"""

import os
import re
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

MOST = float(os.environ["MEMORY_LIMIT"].removesuffix("Mi")) * 1024


def main() -> int:
    run = subprocess.Popen([sys.executable, "-m", "prefect.engine"])
    while run.poll() is None:
        with suppress(OSError, TypeError):
            used = re.search(r"VmRSS:\s+(\d+)", Path(f"/proc/{run.pid}/status").read_text())
            if int(used[1]) > MOST:
                run.kill()
                return 137
        time.sleep(0.02)
    return run.returncode


if __name__ == "__main__":
    sys.exit(main())
