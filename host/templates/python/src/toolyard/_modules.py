"""The modules and data files that a component may load when it runs.

A component has no files of its own then. So this module reads the standard library, the project and its packages into
memory while the component is built, compressed, and serves imports from there. A module that is imported during the
build costs a call nothing; any other is compiled in each call that imports it. So the commonest are imported here.
"""

import importlib
import importlib.abc
import importlib.resources.abc
import importlib.util
import io
import os
import sys
import zlib
from collections.abc import Iterator
from typing import Any

# Modules that the standard library imports in functions, or finds by name.
_COMMON = """
    _strptime bisect calendar copy csv datetime decimal email.mime.multipart email.mime.text email.parser email.policy
    email.utils encodings.ascii encodings.cp1252 encodings.idna encodings.latin_1 encodings.utf_16 encodings.utf_8_sig
    fnmatch glob hashlib heapq hmac html http.client io locale pathlib random string tempfile textwrap unicodedata
    urllib.parse zoneinfo
""".split()

# Parts of the standard library that need a screen, a process, a compiler or threads, or that are for development.
_LEFT_OUT = {
    "__pycache__", "_pyrepl", "ctypes", "curses", "ensurepip", "idlelib", "multiprocessing", "pdb.py", "pydoc.py",
    "pydoc_data", "site-packages", "test", "tkinter", "turtle.py", "turtledemo", "unittest", "venv",
}  # fmt: skip

_STANDARD_LIBRARY = "/python"
_MAX_BYTES = 32 << 20  # of one folder, so that a folder which was added by mistake is noticed

_files: dict[str, bytes] = {}  # by path, compressed
_modules: dict[str, str] = {}  # the path of each module


class _Finder(importlib.abc.MetaPathFinder, importlib.abc.InspectLoader):
    """Finds modules and data files in `_files`."""

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        file = _modules.get(fullname)
        if file is None:
            return None
        folder = [os.path.dirname(file)] if self.is_package(fullname) else None
        return importlib.util.spec_from_file_location(fullname, file, loader=self, submodule_search_locations=folder)

    def is_package(self, fullname: str) -> bool:
        return _modules[fullname].endswith("/__init__.py")

    def get_source(self, fullname: str) -> str:
        return importlib.util.decode_source(self.get_data(_modules[fullname]))

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(_modules[fullname]), _modules[fullname])

    def get_data(self, path: str) -> bytes:
        try:
            return zlib.decompress(_files[path])
        except KeyError:
            raise FileNotFoundError(path) from None

    def get_resource_reader(self, fullname: str) -> Any:
        return _Reader(os.path.dirname(_modules[fullname]))


class _Reader(importlib.resources.abc.TraversableResources):
    """Gives `importlib.resources` the data files of a package."""

    def __init__(self, folder: str):
        self._folder = folder

    def files(self) -> "_Path":
        return _Path(self._folder)


class _Path(importlib.resources.abc.Traversable):
    """A file or folder of `_files`."""

    def __init__(self, path: str):
        self._path = path

    @property
    def name(self) -> str:
        return os.path.basename(self._path)

    def __str__(self) -> str:
        return self._path

    def is_file(self) -> bool:
        return self._path in _files

    def is_dir(self) -> bool:
        return any(file.startswith(self._path + "/") for file in _files)

    def iterdir(self) -> Iterator["_Path"]:
        start = len(self._path) + 1
        inside = [file[start:] for file in _files if file.startswith(self._path + "/")]
        return (_Path(f"{self._path}/{name}") for name in sorted({each.partition("/")[0] for each in inside}))

    def joinpath(self, *descendants: str) -> "_Path":
        return _Path(os.path.normpath(os.path.join(self._path, *descendants)))

    def open(self, mode: str = "r", *arguments: Any, **options: Any) -> Any:
        file = io.BytesIO(_finder.get_data(self._path))
        return file if "b" in mode else io.TextIOWrapper(file, *arguments, **options)


def _keep(root: str) -> None:
    """Reads the files below a folder of `sys.path`."""
    total = 0
    for folder, folders, names in os.walk(root):
        own = root != _STANDARD_LIBRARY
        left_out = {"__pycache__"} if own else _LEFT_OUT
        folders[:] = [name for name in folders if name not in left_out and not name.endswith(".dist-info")]
        for name in names:
            if name in left_out or not (own or name.endswith(".py")):
                continue
            path = f"{folder}/{name}"
            with open(path, "rb") as file:
                data = file.read()
            total += len(data)
            if total > _MAX_BYTES:
                raise ImportError(f"{root} has more than {_MAX_BYTES >> 20} MiB; a component cannot contain it")
            _files[path] = zlib.compress(data)
            if name.endswith(".py"):
                module = path[len(root) + 1 : -3].replace("/", ".").removesuffix(".__init__")
                _modules.setdefault(module, path)


_finder = _Finder()
for _root in sys.path:
    # /world and /bundled have the bindings, which are all imported during the build.
    if _root == _STANDARD_LIBRARY or _root[1:].isdigit():
        _keep(_root)
# Behind the importers of built-in and frozen modules, before the one for folders.
sys.meta_path.insert(2, _finder)
# The modules of the project that were imported before this one show their lines in tracebacks too.
for _name, _module in list(sys.modules.items()):
    if _name in _modules and _modules[_name] == getattr(_module, "__file__", None):
        _module.__loader__ = _module.__spec__.loader = _finder
for _name in _COMMON:
    importlib.import_module(_name)
