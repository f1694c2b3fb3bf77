"""Can a local model run on this machine, and what would it download?

Nothing is loaded or fetched.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, TypeGuard

from adapters.local_models import LocalModel, interpreter
from adapters.worker_process import worker_environment
from audio.errors import InputError
from audio.key_names import HUB_TOKENS
from rig.doctor import Check

ASK_S = 120.0
"""How long an environment may take to say what is in it; importing torch from a cold disk takes a
while. Ours."""

SHOWN_N = 200
"""Characters of a setting that a check shows. Ours."""
_REPOSITORY = re.compile(r"(?!.*(?:--|\.\.))(?:[A-Za-z0-9_][\w.-]{0,95}/)[A-Za-z0-9_][\w.-]{0,95}",
                         re.ASCII)
"""OWNER/NAME as the hub has it (huggingface_hub, `utils/_validators.py`)."""

_ASK = """
import importlib, importlib.metadata as m, json, sys
found = {"python": sys.version.split()[0]}
for name in sys.argv[1:]:
    try:
        module = importlib.import_module(name)
        found[name] = str(getattr(module, "__version__", "?"))
    except Exception as error:
        found[name] = f"!{type(error).__name__}: {error}"
try:
    import torch
    found["cuda"] = [f"{p.name}, {p.total_memory / 1e9:.0f} GB" for p in
                     map(torch.cuda.get_device_properties, range(torch.cuda.device_count()))]
except Exception:
    found["cuda"] = []
print(json.dumps(found))
"""


def examine(model: LocalModel, settings: Mapping[str, Any]) -> list[Check]:
    """What it needs, one check each."""
    checks = [_environment(model, str(settings["python"]))]
    if model.experimental:
        given = bool(settings["experimental"])
        checks.append(Check("experimental", True, "ok" if given else "missing", "asked for" if given
                            else "off by default", None if given else "read the page of the "
                            "model, then --set experimental=yes"))
    asked = _asked(model, str(settings["python"])) if settings["python"] else None
    if asked is not None:
        checks += _packages(model, asked)
    checks += [_gpu(model, str(settings.get("device", "cuda")), asked), _weights(model, settings)]
    checks += _own_paths(model, settings)
    if model.needs.gated:
        given = any(os.environ.get(name) for name in HUB_TOKENS)
        checks.append(Check("token", True, "ok" if given else "missing",
                            "HF_TOKEN is set" if given else "HF_TOKEN is not set; the weights are "
                            "behind an agreement", None if given else
                            "accept the agreement of the model on its hub, then set HF_TOKEN"))
    return checks


def _environment(model: LocalModel, python: str) -> Check:
    try:
        command = interpreter(model.name, python)
    except InputError as error:
        return Check("environment", True, "missing", str(error) if python else "uv, which makes "
                     "it, is not installed, and --set python names none", f"install uv, or make an "
                     f"environment with Python {model.needs.python} and the packages at the top of "
                     f"{model.path}, then --set python=ITS_PYTHON")
    how = ("uv makes it from the script's own list of packages" if not python
           else "given by --set python")
    return Check("environment", True, "ok", f"{' '.join(command)}: {how}")


def _asked(model: LocalModel, python: str) -> dict[str, Any] | str:
    try:
        done = subprocess.run([python, "-c", _ASK, *model.needs.modules], capture_output=True,
                              timeout=ASK_S, check=False, env=worker_environment())
    except subprocess.TimeoutExpired:
        return f"no answer within {ASK_S:g} s"
    except (OSError, ValueError) as error:
        return f"it cannot be started: {getattr(error, 'strerror', None) or error}"
    lines = done.stdout.decode("utf-8", "replace").strip().splitlines()
    try:
        found = json.loads(lines[-1] if lines else "")
    except (ValueError, RecursionError):
        found = None
    return found if _is_answer(found) else (
        f"expected a Python interpreter, got one that ends with exit code {done.returncode} and "
        f"answers {ascii(lines[-1])[:60] if lines else 'nothing'}")


def _is_answer(found: object) -> TypeGuard[dict[str, Any]]:
    """Whether it is what `_ASK` prints: text for each name, and the GPUs with their memory."""
    return (isinstance(found, dict) and isinstance(gpus := found.get("cuda"), list)
            and all(isinstance(value, str) for name, value in found.items() if name != "cuda")
            and all(isinstance(gpu, str) and _MEMORY.search(gpu) for gpu in gpus))


_MEMORY = re.compile(r", (\d{1,6}) GB$", re.ASCII)
"""The end of a GPU's line."""


def _packages(model: LocalModel, asked: dict[str, Any] | str) -> list[Check]:
    if isinstance(asked, str):
        return [Check("packages", True, "broken", f"the environment could not be asked: {asked}",
                      "try the interpreter by hand")]
    low, below = model.needs.python_from, model.needs.python_below
    numbers = tuple(int(n) for n in re.findall(r"\d+", str(asked.get("python")))[:2])
    fits = low <= numbers < below
    checks = [Check("python", True, "ok" if fits else "broken", f"{asked.get('python')}, wanted "
                    f"{model.needs.python}", None if fits else "make the environment with another "
                    "Python")]
    for name in model.needs.modules:
        version = str(asked.get(name, "!not asked"))
        good = not version.startswith("!")
        checks.append(Check(name, True, "ok" if good else "missing", version.lstrip("!"), None
                            if good else f"install the packages at the top of {model.path}"))
    return checks


def _gpu(model: LocalModel, device: str, asked: dict[str, Any] | str | None) -> Check:
    if device == "cpu":
        return Check("GPU", False, "ok", "not wanted: --set device=cpu, slower than real time")
    needed_gb = model.needs.gpu_gb
    wants = "memory unknown" if needed_gb is None else f"about {needed_gb:g} GB wanted"
    told = asked.get("cuda") if isinstance(asked, dict) else None
    seen = told if isinstance(told, list) else _driver_says()
    if not seen:
        return Check("GPU", True, "missing", f"none is seen; {wants}",
                     "run on a machine with an NVIDIA GPU and its driver, or --set device=cpu "
                     "where the model has that")
    best_gb = max(float(found[1]) for gpu in seen if (found := _MEMORY.search(gpu)))
    enough = needed_gb is None or best_gb >= needed_gb
    return Check("GPU", True, "ok" if enough else "broken", f"{'; '.join(map(str, seen))}; {wants}",
                 None if enough else "use a GPU with more memory")


def _driver_says() -> list[str]:
    """Name and memory of each GPU, by the driver's own tool."""
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return []
    try:
        done = subprocess.run(
            [tool, "--query-gpu=name,memory.total", "--format=csv,noheader,nounits"],
            capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return []
    found = []
    for line in done.stdout.splitlines():
        name, _, mib = line.rpartition(",")
        if mib.strip().isdigit():
            found.append(f"{name.strip()}, {int(mib) * 2**20 / 1e9:.0f} GB")
    return found


def hub_folder() -> Path:
    """Where the hub's own library keeps what it downloads (huggingface_hub, `constants.py`)."""
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    except RuntimeError:  # neither HOME nor a user of that number
        cache = ".cache"
    home = os.environ.get("HF_HOME") or str(Path(cache) / "huggingface")
    hub = (os.environ.get("HF_HUB_CACHE") or os.environ.get("HUGGINGFACE_HUB_CACHE")
           or str(Path(home) / "hub"))
    return Path(os.path.expandvars(Path(hub).expanduser()))


def _weights(model: LocalModel, settings: Mapping[str, Any]) -> Check:
    named = str(settings.get("weights") or "")
    if named and named not in model.needs.repositories:
        folder = Path(named)
        good = _is_folder(folder)
        others = [str(value) for name, value in settings.items()
                  if name != "repo" and value in model.needs.repositories]
        then = (f"{', '.join(others)} comes from the hub" if others else "nothing is downloaded")
        return Check("weights", True, "ok" if good else "missing", f"{named[:SHOWN_N]}: "
                     + (f"a folder of this machine; {then}" if good else "no such folder"),
                     None if good else "give another --set weights")
    hub = hub_folder()
    if (repo := str(settings.get("repo") or "")) and not _REPOSITORY.fullmatch(repo):
        return Check("weights", True, "broken", f"--set repo: expected OWNER/NAME of the hub, got "
                     f"{repo[:SHOWN_N]!a}", "give another --set repo")
    repositories = [settings["repo"]] if settings.get("repo") else list(model.needs.repositories)
    missing = [r for r in repositories if not _is_folder(hub / f"models--{r.replace('/', '--')}")]
    if not missing:
        return Check("weights", True, "ok", f"{', '.join(repositories)}: in {hub} (whether whole "
                     "is found out when they are loaded)")
    size = "of unknown size" if model.needs.download_gb is None else (
        f"about {model.needs.download_gb:g} GB")
    download = (f"{', '.join(missing)}: will be downloaded on the first start, {size}, into "
                f"{str(hub)[:SHOWN_N]}")
    free_gb = _free_gb(hub)
    if free_gb is None:
        return Check("weights", True, "broken", f"{download}, which cannot be written",
                     "set HF_HOME to a folder that can")
    enough = model.needs.download_gb is None or free_gb > model.needs.download_gb
    return Check("weights", True, "ok" if enough else "broken", f"{download} ({free_gb:.0f} GB "
                 "free)", None if enough else
                 "free disk space, or set HF_HOME to a folder with more")


def _free_gb(folder: Path) -> float | None:
    """Where a folder is or would be made; `None` where nothing can be written."""
    try:
        while not folder.exists():
            folder = folder.parent
        if not (folder.is_dir() and os.access(folder, os.W_OK | os.X_OK)):
            return None
        return shutil.disk_usage(folder).free / 1e9
    except OSError:
        return None


def _own_paths(model: LocalModel, settings: Mapping[str, Any]) -> Iterator[Check]:
    """Files and folders of the user's that settings name."""
    for name, wanted in model.needs.paths.items():
        given = str(settings[name])
        if wanted.marked_by not in given or not (given or wanted.needed):
            continue
        good = bool(given) and _exists(Path(given) / wanted.holds)
        yield Check(name, True, "ok" if good else "missing", given[:SHOWN_N] if good else
                    f"--set {name}: expected {wanted.what}, got {given[:SHOWN_N] or 'nothing'}",
                    None if good else f"read {model.page}, then --set {name}=PATH")


def _exists(path: Path) -> bool:
    try:
        return path.exists()
    except (OSError, ValueError):  # a name that is too long is an error, too
        return False


def _is_folder(folder: Path) -> bool:
    try:
        return folder.is_dir()
    except (OSError, ValueError):  # a name that is too long is an error, too
        return False
