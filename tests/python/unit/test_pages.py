"""worker/pages.py, in processes of their own: what it does is to all of a process's memory."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

MEBIBYTE = 1024 * 1024

# Two pieces of memory, all of one written to and next to nothing of the other.
SCRIPT = """
import ctypes, json, mmap, re
from hitl.worker import pages

def memory():
    made = mmap.mmap(-1, 8 * 1024 * 1024, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return made, ctypes.addressof(ctypes.c_char.from_buffer(made))

def in_huge_pages():
    with open("/proc/self/smaps") as file:
        return 1024 * sum(map(int, re.findall(r"AnonHugePages: +(\\d+)", file.read())))

def there(address):
    with open("/proc/self/pagemap", "rb") as pagemap:
        pagemap.seek(address // mmap.PAGESIZE * 8)
        return sum(last >> 7 for last in pagemap.read(8 * 1024 * 1024 // mmap.PAGESIZE * 8)[7::8])

# The C library, and what its madvise said.
class Recorded:
    def __init__(self, library):
        self.library = library

    def madvise(self, *arguments):
        said.append(self.library.madvise(*arguments))

said, real = [], ctypes.CDLL
ctypes.CDLL = lambda name: Recorded(real(name))
full, _ = memory()
sparse, where_sparse = memory()
# A system that makes huge pages always has made them by itself, else.
full.madvise(mmap.MADV_NOHUGEPAGE)
written = bytes(range(256))
for start in range(0, len(full), 256):
    full[start : start + 256] = written
for start in range(0, len(sparse), 65536):
    sparse[start] = 1
before = in_huge_pages(), there(where_sparse)
full.madvise(mmap.MADV_HUGEPAGE)
PREPARE
pages.collapse()
found = {"made": in_huge_pages() - before[0], "sparse": there(where_sparse) - before[1], "said": said}
found["kept"] = full[:] == written * (len(full) // 256) and sum(sparse[:]) == 128
print(json.dumps(found))
"""


def collapsed(prepare: str = "") -> dict[str, Any]:
    """What became of the two, and what the system said to each request.

    Where nothing is to happen it is the requests that tell: once memory is let have huge pages, the kernel's own thread
    may make some at any moment.
    """
    script = SCRIPT.replace("PREPARE", prepare)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def huge_pages_can_be_had() -> bool:
    """Whether this system makes them when it is asked to."""
    size = Path("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size")
    if not size.exists() or int(size.read_text()) != 2 * MEBIBYTE or "[never]" in size.with_name("enabled").read_text():
        return False
    script = """
import ctypes, mmap
made = mmap.mmap(-1, 8 << 20, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
made[:] = bytes(8 << 20)
start = -(-ctypes.addressof(ctypes.c_char.from_buffer(made)) // (2 << 20)) * (2 << 20)
raise SystemExit(ctypes.CDLL(None).madvise(ctypes.c_void_p(start), ctypes.c_size_t(2 << 20), 25) != 0)
"""
    return subprocess.run([sys.executable, "-c", script], check=False).returncode == 0


def test_memory_that_is_there_is_put_into_huge_pages_and_stays_what_it_is() -> None:
    if not huge_pages_can_be_had():
        pytest.skip("this system makes no huge pages")
    found = collapsed()
    assert found["made"] >= 6 * MEBIBYTE  # the rest is before and after the first and the last one
    assert found["kept"]


def test_memory_that_is_merely_reserved_stays_so() -> None:
    found = collapsed()
    assert found["sparse"] == 0
    assert found["kept"]


def test_a_system_that_is_told_to_make_none_is_not_asked_for_any(tmp_path: Path) -> None:
    (tmp_path / "enabled").write_text("always madvise [never]\n")
    (tmp_path / "hpage_pmd_size").write_text(f"{2 * MEBIBYTE}\n")
    found = collapsed(f"pages._SETTINGS = pages.Path({str(tmp_path)!r})")
    assert found["said"] == []
    assert found["kept"]


def test_a_system_that_says_nothing_of_huge_pages_is_not_asked_for_any() -> None:
    found = collapsed("pages._SETTINGS = pages.Path('/no/such/place')")
    assert found["said"] == []
    assert found["kept"]


def test_where_the_kernel_refuses_memory_stays_what_it_is() -> None:
    found = collapsed("pages._MADV_COLLAPSE = 12345")
    assert set(found["said"]) <= {-1}
    assert found["kept"]
