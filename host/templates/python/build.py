"""Builds the component. `python3 build.py setup` fetches what this needs; `python3 build.py FILE.wasm` builds FILE.wasm
from `src/` and the packages in requirements.txt. Further arguments go to componentize-py.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path

COMPONENTIZE_PY = "componentize-py==0.25.1"
PYTHON = "3.14"  # the version that componentize-py puts into the component
WORLD = "tools-wasi-plugin"

TOOLS = Path(".tools")
PACKAGES = TOOLS / "packages" / "lib" / "site-packages"
REQUIREMENTS = Path("requirements.txt")
# Parts of the standard library that are in native code and that the component's Python lacks.
ABSENT = {"_bz2", "_ctypes", "_curses", "_dbm", "_lzma", "_ssl", "_tkinter", "_zstd", "fcntl", "mmap", "readline"}


def setup() -> None:
    if not shutil.which("componentize-py"):
        run_pip("install", "--quiet", COMPONENTIZE_PY)
    packages()


def run_pip(*arguments: str) -> None:
    if not (TOOLS / "bin" / "pip").exists():
        try:
            venv.create(TOOLS, with_pip=True)
        except subprocess.CalledProcessError:
            sys.exit("this Python cannot make a virtual environment with pip; on Debian, install python3-venv")
    command = [TOOLS / "bin" / "pip", "--disable-pip-version-check", *arguments]
    done = subprocess.run(command, text=True, stdout=sys.stderr, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(pip_failure(done.stderr))


def pip_failure(output: str) -> str:
    if missing := re.search(r"No matching distribution found for (\S+)", output):
        return (
            f"{REQUIREMENTS}: {missing[1]} has no wheel of pure Python for {PYTHON}, so a component cannot contain it; "
            "use another version, or another package without native code"
        )
    if "require-hashes" in output or "must have their versions pinned" in output:
        return (
            f"{REQUIREMENTS}: each package needs its version and a hash; write the file with `uv export`, or with "
            "`pip-compile --generate-hashes`"
        )
    return output


def packages() -> None:
    """Installs requirements.txt, if it has changed since the last time."""
    text = REQUIREMENTS.read_text() if REQUIREMENTS.exists() else ""
    names_one = any(line.strip() and not line.strip().startswith("#") for line in text.splitlines())
    wanted = hashlib.sha256(text.encode()).hexdigest() if names_one else ""
    stamp = TOOLS / "packages" / "installed"
    if stamp.exists() and stamp.read_text() == wanted:
        return
    shutil.rmtree(TOOLS / "packages", ignore_errors=True)
    PACKAGES.mkdir(parents=True)
    if wanted:
        only_pure = ["--only-binary=:all:", "--platform=any", "--implementation=py", "--abi=none"]
        where = [f"--python-version={PYTHON}", f"--target={PACKAGES}", "--no-compile"]
        run_pip("install", "--quiet", "--require-hashes", *only_pure, *where, "-r", str(REQUIREMENTS))
        for file in PACKAGES.rglob("*"):
            if file.suffix in (".so", ".pyd", ".dylib", ".dll"):
                package = file.relative_to(PACKAGES).parts[0]
                sys.exit(f"{REQUIREMENTS}: {package} has native code ({file.name}), which a component cannot contain")
    stamp.write_text(wanted)


def inputs(options: tuple[str, ...]) -> str:
    """A hash of everything that a component is made of."""
    whole = hashlib.sha256(repr([COMPONENTIZE_PY, options]).encode())
    folders = [Path("src"), Path("src/toolyard"), Path("wit")]  # the second and the third may be links
    files = {file for folder in folders for file in folder.rglob("*") if "__pycache__" not in file.parts}
    for file in [Path(__file__), TOOLS / "packages" / "installed", *sorted(files)]:
        if file.is_file():
            whole.update(f"\0{file.name}\0".encode() + file.read_bytes())
    return whole.hexdigest()


def build(component: str, *options: str) -> None:
    packages()
    built, wanted = Path(component + ".built"), inputs(options)
    if Path(component).exists() and built.exists() and built.read_text() == wanted:
        return
    # A copy, because links that lead out of a folder do not work in the sandbox of the build.
    shutil.rmtree("dist/src", ignore_errors=True)
    shutil.copytree("src", "dist/src", ignore=shutil.ignore_patterns("__pycache__"))
    path = f"{os.environ['PATH']}{os.pathsep}{TOOLS.absolute() / 'bin'}"
    # VIRTUAL_ENV names the packages. Without it componentize-py would take those of this machine.
    environment = os.environ | {
        "PATH": path,
        "VIRTUAL_ENV": str((TOOLS / "packages").absolute()),
        "RUST_BACKTRACE": "0",
    }
    command = ["componentize-py", "-q", "-d", "wit", "-w", WORLD, "componentize", *options, "-p", "dist/src", "app"]
    command = [shutil.which("componentize-py", path=path) or "componentize-py", *command[1:], "-o", component]
    done = subprocess.run(command, env=environment, text=True, stderr=subprocess.PIPE)
    if done.returncode:
        sys.exit(build_failure(done.stderr))
    sys.stderr.write(done.stderr)
    built.write_text(wanted)


def build_failure(output: str) -> str:
    """One sentence, and the author's lines."""
    # The sandbox of the build shows `src/` as /0, and the packages as /1.
    trace, _, cause = output.partition("\n\nCaused by:")
    error = cause.split("\n\nStack backtrace:")[0].strip() or trace.strip().splitlines()[-1]
    lines = re.findall(r'File "/0/([^"]+)", line (\d+)(?:, in \S+)?\n\s+(.+)', trace)
    own = [f"  src/{file}:{line}: {text}" for file, line, text in lines if not file.startswith("toolyard/")]
    if "no attribute 'Tools'" in error:
        return "src/app.py does not export the tools; it needs the line `from toolyard import Tools`"
    if not own:
        return output
    if missing := re.search(r"No module named '([^']+)'", error):
        error = missing_module(missing[1])
    return "\n".join([error, *own])


def missing_module(name: str) -> str:
    if name in ABSENT:
        return f"the module {name} is native code of Python's standard library, which a component does not have"
    return (
        f"the module {name} is not there: add its package to {REQUIREMENTS} if it is pure Python; packages with native "
        "code, such as numpy, do not work in a component"
    )


if __name__ == "__main__":
    if sys.argv[1:] == ["setup"]:
        setup()
    else:
        build(*sys.argv[1:])
