"""Become a service: end what its former process left behind, then run its command, as its user and in its folder.

usage: NOISYIR_SERVICES=FOLDER python -m infra.start NAME      supervisord runs it; FOLDER/services.json says how
"""

import json
import os
import pwd
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import psutil

MARK = "NOISYIR_SERVER"  # in the environment of whatever a service starts, in whichever session that is
STOP_SECONDS = 20


def main() -> None:
    """Replace this process by the service that the command line names."""
    service = json.loads((Path(os.environ["NOISYIR_SERVICES"]) / "services.json").read_text())[sys.argv[1]]
    stop(marked(service["environment"][MARK]))
    os.chdir(service["folder"] or Path.cwd())
    if service["user"] and os.geteuid() == 0:
        user = pwd.getpwnam(service["user"])
        os.setgroups([])
        os.setgid(user.pw_gid)
        os.setuid(user.pw_uid)
    os.execvpe(service["command"][0], service["command"], service["environment"])


def marked(mark: str) -> list[psutil.Process]:
    """The processes of this user whose environment carries `mark`, or a mark that begins with it and a slash."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.AccessDenied, psutil.NoSuchProcess):  # another user's, or gone meanwhile
            if f"{process.environ().get(MARK, '')}/".startswith(f"{mark}/") and process.pid != os.getpid():
                found.append(process)
    return found


def stop(processes: Sequence[psutil.Process]) -> None:
    """Ask processes to end; kill those that have not after `STOP_SECONDS`.  A number given out again is not hit."""
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.terminate()
    _, late = psutil.wait_procs(processes, STOP_SECONDS)
    for process in late:
        with suppress(psutil.NoSuchProcess):
            process.kill()
    psutil.wait_procs(late, STOP_SECONDS)


if __name__ == "__main__":
    main()
