"""Write pylock.toml (PEP 751): every package that noisyir's sets install, its version, and the hashes of its files.

usage: python -m infra.lock [--torch REQUIREMENT] [--upgrade]

uv resolves, for every supported Python and platform at once.  Versions that are locked stay unless pyproject.toml
excludes them or --upgrade is given.  Two things differ from uv's own file: each package says which sets need it
(markers of `extras`, which uv does not write), and packages of one accelerator are left out.
"""

import argparse
import os
import re
import subprocess
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from infra.install import find_uv, uv_settings

LOCK = Path("pylock.toml")
# Extras that something installs: make, the images.
SETS = ("all", "bench", "dev", "bm25", "train", "export", "orchestrate", "s3", "servers", "kubernetes")
# Each machine has its own build of these, pinned by version or by range, and never by hash.
ACCELERATED = re.compile(r"torch|triton|faiss-gpu|nvidia-.*|cuda-.*")
PYTHONS, PLATFORMS = ("3.11", "3.12", "3.13", "3.14"), ("manylinux", "macosx")

Package = dict[str, Any]


def main() -> None:
    """Resolve all sets together, then each alone at those versions, and write who needs what."""
    parser = argparse.ArgumentParser(description="Write pylock.toml")
    parser.add_argument("--torch", default="torch", help="the requirement whose dependencies are locked")
    parser.add_argument("--upgrade", action="store_true", help="take the newest versions instead of the locked ones")
    arguments = parser.parse_args()
    with TemporaryDirectory() as folder:
        together = Path(folder) / "pylock.toml"
        if LOCK.exists() and not arguments.upgrade:
            together.write_text(LOCK.read_text())
        found = resolved(SETS, [arguments.torch], [], together)
        packages = [package for package in found if not ACCELERATED.fullmatch(package["name"])]
        versions = [arguments.torch, *map(pinned, packages)]
        left_out = [package["name"] for package in found if package not in packages and package["name"] != "torch"]
        needed = {}
        for name in ("core", *SETS):
            alone = resolved({name} & {*SETS}, versions, left_out, Path(folder) / f"pylock.{name}.toml")
            needed[name] = {package["name"] for package in alone}
    LOCK.write_text(document(packages, needed))
    print(f"{LOCK}: {len(packages)} packages")


def resolved(
    extras: Iterable[str], constraints: Iterable[str], left_out: Iterable[str], written: Path
) -> list[Package]:
    """The packages of these extras, for all Pythons and platforms, as `written` has them in the end.

    Raises:
        SystemExit: there is no uv.
        CalledProcessError: uv found no versions that agree; it says why.

    """
    uv = find_uv()
    if uv is None:
        raise SystemExit("make lock needs uv: pip install uv")
    # Folders of wheels are heard, for torch; an index of this machine's own would put its addresses into the lock.
    environment = {name: value for name, value in uv_settings().items() if name != "UV_EXTRA_INDEX_URL"} | os.environ
    constrained, overridden = written.with_suffix(".constraints"), written.with_suffix(".overrides")
    constrained.write_text("\n".join(constraints))
    overridden.write_text("\n".join(f"{name} ; sys_platform == 'none'" for name in left_out))
    command = [uv, "pip", "compile", "pyproject.toml", "--quiet", "--universal", "--python-version", PYTHONS[0]]
    command += [f"--extra={name}" for name in extras]
    command += [f"--constraint={constrained}", f"--override={overridden}"]
    command += ["--format=pylock.toml", f"--output-file={written}"]
    subprocess.run(command, check=True, env=environment)
    packages: list[Package] = tomllib.loads(written.read_text())["packages"]
    return packages


def pinned(package: Package) -> str:
    """`name==version`, under the package's marker: a package may be locked at several versions."""
    marker = package.get("marker")
    return f"{package['name']}=={package['version']}" + (f" ; {marker}" if marker else "")


def document(packages: Iterable[Package], needed: Mapping[str, set[str]]) -> str:
    """The text of the lock."""
    project = tomllib.loads(Path("pyproject.toml").read_text())
    head = [
        "# What make, CI and the images install, with hashes: written by `make lock`, read by pip 26.3 and by uv.",
        "# torch and what it brings for an accelerator are not in it: see CONTRIBUTING.md.",
        'lock-version = "1.0"',
        'created-by = "noisyir infra.lock"',
        f'requires-python = ">={PYTHONS[0]}"',
        f"environments = {quoted(project['tool']['uv']['environments'])}",
        f"extras = {quoted(SETS)}",
    ]
    return "\n".join([*head, *(line for package in packages for line in entry(package, needed))]) + "\n"


def entry(package: Package, needed: Mapping[str, set[str]]) -> list[str]:
    """The lines of one package."""
    name = package["name"]
    lines = ["", "[[packages]]", f'name = "{name}"', f'version = "{package["version"]}"']
    conditions = [f"({package['marker']})"] if "marker" in package else []
    if name not in needed["core"]:
        sets = [f"'{extra}' in extras" for extra in SETS if name in needed[extra]]
        conditions.append(f"({' or '.join(sets)})")
    if conditions:
        lines.append(f'marker = "{" and ".join(conditions)}"')
    wheels = [wheel for wheel in package.get("wheels", []) if fits(wheel["url"])]
    if "sdist" in package and not any("-any.whl" in wheel["url"] for wheel in wheels):
        lines.append(f"sdist = {file_of(package['sdist'])}")
    return [*lines, "wheels = [", *(f"  {file_of(wheel)}," for wheel in wheels), "]"] if wheels else lines


def fits(url: str) -> bool:
    """Whether a wheel is for a supported Python and platform; the others would make the file five times as long."""
    python, abi, platform = url.removesuffix(".whl").split("-")[-3:]
    known = {"py3"} | {f"{kind}{version.replace('.', '')}" for kind in ("cp", "py") for version in PYTHONS}
    return (
        ("abi3" in abi or bool(known & set(python.split("."))))
        and not abi.endswith("t")
        and (platform == "any" or any(kind in platform for kind in PLATFORMS))
    )


def file_of(found: Mapping[str, Any]) -> str:
    """One file as an inline table of TOML."""
    hashes = ", ".join(f'{kind} = "{value}"' for kind, value in found["hashes"].items())
    return f'{{ url = "{found["url"]}", hashes = {{ {hashes} }} }}'


def quoted(names: Iterable[str]) -> str:
    """A list of strings in TOML."""
    return "[" + ", ".join(f'"{name}"' for name in names) + "]"


if __name__ == "__main__":
    main()
