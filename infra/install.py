"""Set up .venv: what pylock.toml pins by hash, torch by its version alone, and this checkout, editable.

usage: python infra/install.py EXTRA [--torch REQUIREMENT]

Only the standard library, for it runs before anything is installed.  uv installs where it is found or can be had from
the index, at about a sixth of pip's processor time; otherwise pip does.
"""

import argparse
import ast
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

UV, PIP = "0.13.9", "26.3"  # the first versions tried that read extras from a pylock.toml
VENV = Path(".venv")
# Settings of pip's configuration, which uv does not read: uv's variable, and what stands between several values.
UV_VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_EXTRA_INDEX_URL", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "no-index": ("UV_NO_INDEX", " "),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
}


def main() -> None:
    """Install the set named on the command line; what is there already stays, unless the lock pins another version."""
    parser = argparse.ArgumentParser(description="Set up .venv for this checkout")
    parser.add_argument("extra", help="the set of pyproject.toml: all for users, dev for developers")
    parser.add_argument("--torch", default="", help="a requirement; empty leaves the environment's torch as it is")
    arguments = parser.parse_args()
    os.environ.update({name: value for name, value in uv_settings().items() if name not in os.environ})
    try:
        install(arguments.extra, arguments.torch)
    except subprocess.CalledProcessError as failed:
        sys.exit(f"could not install: {' '.join(map(str, failed.cmd))} failed (see above)")


def install(extra: str, torch: str) -> None:
    """Three steps, for hashes hold for the lock alone: torch has a build for each accelerator, this checkout has none.

    Raises:
        CalledProcessError: one of them failed.

    """
    uv = find_uv()
    make_environment(uv)
    uv = uv or uv_from_index()
    python = str(VENV / "bin" / "python")
    if uv:
        command = [uv, "pip", "install", "--quiet", "--python", python]
        lock = ["--preview-features", "pylock", "--requirement", "pylock.toml", "--extra", extra]
    else:
        command = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*command, f"pip=={PIP}"], check=True)
        lock = ["--no-deps", "--requirement", f"pylock.toml[{extra}]"]
    subprocess.run([*command, *lock], check=True)
    if torch:
        subprocess.run([*command, *torch.split()], check=True)
    subprocess.run([*command, "--no-deps", "--editable", "."], check=True)


def find_uv() -> str | None:
    """The path of a uv that is new enough, or None."""
    for path in (str(VENV / "bin" / "uv"), shutil.which("uv")):
        if path is None or not Path(path).exists():
            continue
        said = subprocess.run([path, "--version"], capture_output=True, text=True, check=False).stdout
        if (found := re.match(r"uv (\d+)\.(\d+)\.(\d+)", said)) and numbers(".".join(found.groups())) >= numbers(UV):
            return path
    return None


def numbers(version: str) -> tuple[int, ...]:
    """A version as numbers that compare."""
    return tuple(map(int, version.split(".")))


def make_environment(uv: str | None) -> None:
    """Create .venv for the Python that runs this; one that is there stays."""
    if (VENV / "bin" / "python").exists():
        return
    command = [uv, "venv", "--quiet", "--python", sys.executable] if uv else [sys.executable, "-m", "venv"]
    subprocess.run([*command, str(VENV)], check=True)


def uv_from_index() -> str | None:
    """Put uv into .venv; None where the index has none for this machine."""
    command = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    got = subprocess.run([*command, "--only-binary", "uv", f"uv=={UV}"], capture_output=True, check=False)
    return str(VENV / "bin" / "uv") if got.returncode == 0 else None


def uv_settings() -> dict[str, str]:
    """Pip's configuration, variables before files, as uv's variables: indexes, folders of wheels, certificates."""
    pip = [sys.executable, "-m", "pip", "config", "list"]
    lines = subprocess.run(pip, capture_output=True, text=True, check=False).stdout.splitlines()
    settings = {"UV_INDEX_STRATEGY": "unsafe-best-match"}  # as pip does: the newest version that any index has
    for line in lines:
        found = re.match(r"(?:global|install|:env:)\.([a-z-]+)=(.*)$", line)
        if found and found[1] in UV_VARIABLES:
            variable, between = UV_VARIABLES[found[1]]
            settings.setdefault(variable, between.join(ast.literal_eval(found[2]).split()))
    return settings


if __name__ == "__main__":
    main()
