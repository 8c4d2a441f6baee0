"""Names a Python object, such as a model, by a digest of all that could change what it does.

Of a function or a class that is its code, with what the code refers to, defaults and closures; of what an installed
package defines, the package's release; of anything else its class, and the state that it would be pickled with. A text
that is the path of a file stands for the file's bytes too. A lock, an open file or another library's session cannot be
read, and leaves what holds it unknown.
"""

from __future__ import annotations

import copyreg
import dis
import hashlib
import sys
import sysconfig
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from itertools import chain
from pathlib import Path, PurePath
from types import CellType, CodeType, FunctionType, MappingProxyType, MethodType, ModuleType
from typing import Any

from ..keys import content_key, file_digest

# Folders of packages that are installed: their releases name what they hold.
_INSTALLED = ("site-packages", "dist-packages")
_LONGEST_PATH = 255
# What wraps functions, and where it has them.
_WRAPPERS: Mapping[type, tuple[str, ...]] = MappingProxyType(
    {MethodType: ("__func__", "__self__"), property: ("fget", "fset", "fdel"), cached_property: ("func",)}
    | dict.fromkeys((staticmethod, classmethod), ("__func__",))
)


@dataclass(frozen=True)
class Identity:
    """`digest` is 64 hex digits; None where it cannot be told, and `unknown` is the kind of thing that hides it."""

    digest: str | None
    unknown: str = ""


class _UnknownError(Exception):
    """A thing whose content cannot be read. The message is its kind."""


def identify(*parts: Any) -> Identity:
    """What the parts together are, the same in another process and until one of them changes."""
    try:
        return Identity(_ObjectReader().digest(parts))
    except _UnknownError as error:
        return Identity(None, str(error))
    except RecursionError:
        return Identity(None, "deeply nested thing")


class _ObjectReader:
    """Reads objects, each once."""

    def __init__(self) -> None:
        self._digests: dict[int, str] = {}
        self._held: list[Any] = []  # what is gone leaves its number to another object
        self._releases: dict[str, str] = {}

    def digest(self, value: Any) -> str:
        if value is None or value is ... or value is NotImplemented or type(value) in (bool, int, float, complex):
            return repr(value)
        if type(value) is bytes:
            return hashlib.sha256(value).hexdigest()
        if type(value) is str or isinstance(value, PurePath):
            return self._text(str(value))
        if id(value) not in self._digests:
            self._held.append(value)
            self._digests[id(value)] = "itself"  # where it holds itself
            self._digests[id(value)] = content_key(type(value).__qualname__, list(self._parts(value)))
        return self._digests[id(value)]

    def _text(self, text: str) -> str:
        content = ""
        with suppress(OSError):  # names may be too long for a file's
            content = file_digest(Path(text)) if 0 < len(text) <= _LONGEST_PATH and Path(text).is_file() else ""
        return repr(text) + content

    def _parts(self, value: Any) -> Iterator[str]:
        kind = type(value)
        if kind in (tuple, list):
            yield from map(self.digest, value)
        elif kind in (set, frozenset):
            yield from sorted(map(self.digest, value))
        elif kind in (dict, MappingProxyType):
            yield from map(self.digest, chain.from_iterable(value.items()))
        elif kind is ModuleType:
            yield self._module(value)
        elif kind is FunctionType:
            yield from self._function(value)
        elif kind in _WRAPPERS:
            yield from (self.digest(getattr(value, name)) for name in _WRAPPERS[kind])
        elif isinstance(value, type):
            yield from self._class(value)
        elif "torch" in sys.modules and isinstance(value, sys.modules["torch"].Tensor):
            yield from self._tensor(value)
        else:
            yield from self._instance(value)

    def _module(self, module: ModuleType) -> str:
        return self._release(module.__name__) if _is_installed(module.__name__) else _file_of(module.__name__)

    def _function(self, function: FunctionType) -> Iterator[str]:
        more = (function.__defaults__, function.__kwdefaults__, dict(vars(function)))
        cells = [cell.cell_contents for cell in function.__closure__ or () if _is_full(cell)]
        yield from map(self.digest, (function.__qualname__, *more, *cells))
        home = str(function.__globals__.get("__name__", ""))
        if _is_installed(home):
            yield self._release(home)
        else:
            codes = _codes(function.__code__)
            for code in codes:
                yield from self._code(code)
            yield from self._named(function.__globals__, {name for code in codes for name in code.co_names})

    def _code(self, code: CodeType) -> Iterator[str]:
        names = (code.co_name, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        counts = (code.co_flags, code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount)
        yield content_key(names, counts, code.co_code.hex())
        yield from (self.digest(one) for one in code.co_consts if not isinstance(one, CodeType))
        for line in dis.get_instructions(code):
            if line.opname == "IMPORT_NAME" and line.argval and not _is_installed(line.argval):
                yield _file_of(line.argval)

    def _named(self, space: Mapping[str, Any], names: Iterable[str]) -> Iterator[str]:
        """What code means by names: in its own module, and in the user's other modules among that."""
        spaces, known = [space], set[int]()
        while spaces:
            space = spaces.pop()
            for name in sorted(names & space.keys()):
                value = space[name]
                yield f"{name}={self.digest(value)}"
                if isinstance(value, ModuleType) and not _is_installed(value.__name__) and id(value) not in known:
                    known.add(id(value))
                    spaces.append(vars(value))

    def _class(self, kind: type) -> Iterator[str]:
        yield kind.__qualname__
        home = kind.__module__ if isinstance(kind.__module__, str) else "builtins"
        if _is_installed(home):
            yield self._release(home)
            return
        yield from map(self.digest, (type(kind), *kind.__bases__))
        for name, value in vars(kind).items():
            hidden = name.startswith("__") and type(value) not in (FunctionType, *_WRAPPERS)
            if not hidden and name != "_abc_impl":
                yield f"{name}={self.digest(value)}"

    def _tensor(self, tensor: Any) -> Iterator[str]:
        torch = sys.modules["torch"]
        if tensor.is_quantized:  # its bytes are not all of it
            raise _UnknownError("quantised tensor")
        try:
            flat = tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8)
            content = hashlib.sha256(memoryview(flat.numpy())).hexdigest()
        except Exception as error:  # of a device without memory, or in a form without plain bytes
            raise _UnknownError(type(tensor).__name__) from error
        yield from (str(tensor.dtype), str(tuple(tensor.shape)), content, self.digest(dict(vars(tensor))))

    def _instance(self, value: Any) -> Iterator[str]:
        reduce = copyreg.dispatch_table.get(type(value))
        try:
            reduced: Any = value.__reduce_ex__(4) if reduce is None else reduce(value)
            whole = isinstance(reduced, str)
            parts = reduced if whole else [list(one) if isinstance(one, Iterator) else one for one in reduced]
        except Exception as error:  # a user's class may raise anything
            raise _UnknownError(type(value).__name__) from error
        self._held.append(parts)
        if isinstance(parts, str):  # a name of its module's
            yield from (parts, self._release(str(getattr(value, "__module__", None) or "builtins")))
            parts = [getattr(value, "__dict__", None)]
        yield from map(self.digest, (type(value), *parts))

    def _release(self, module: str) -> str:
        """The release of the package that a module is of; where it has none, the digest of its file."""
        package = module.partition(".")[0]
        if package not in self._releases:
            try:
                release = version(package)
            except PackageNotFoundError:
                release = str(getattr(sys.modules.get(package), "__version__", None) or _file_of(package))
            self._releases[package] = release
        return f"{module} {self._releases[package]} {sys.version if package in sys.stdlib_module_names else ''}"


def _is_installed(module: str) -> bool:
    """Whether a module belongs to Python, to an installed package or to this one, rather than to the user."""
    package = module.partition(".")[0]
    if package == "__main__":
        return False
    if package in sys.stdlib_module_names or package == __name__.partition(".")[0]:
        return True
    file = str(_path_of(module) or "")
    return any(part in _INSTALLED for part in Path(file).parts) or file.startswith(sysconfig.get_paths()["stdlib"])


def _path_of(module: str) -> Path | None:
    """The file of a module, imported or not."""
    loaded = getattr(sys.modules.get(module), "__file__", None)
    try:
        return Path(loaded or find_spec(module.partition(".")[0]).origin)  # type: ignore[union-attr,arg-type]
    except (AttributeError, ImportError, TypeError, ValueError):
        return None


def _file_of(module: str) -> str:
    path = _path_of(module)
    return f"{module} {file_digest(path) if path is not None and path.is_file() else ''}"


def _codes(code: CodeType) -> list[CodeType]:
    """The code, and what is defined in it."""
    return [code, *(inner for one in code.co_consts if isinstance(one, CodeType) for inner in _codes(one))]


def _is_full(cell: CellType) -> bool:
    try:
        return cell.cell_contents is not cell
    except ValueError:
        return False
