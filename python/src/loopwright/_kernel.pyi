from typing import Any

from typing_extensions import Self

ABI: int

class Kernel:
    name: str
    digest: str
    features: str
    inputs: tuple[str, ...]
    threads: int
    packed_bytes: int
    workspace_bytes: int
    private_bytes: int
    _facts: str
    _arguments: tuple[tuple[str, str, tuple[int, ...], bool, bool, bool, int], ...]

    def __new__(cls, path: str, /) -> Self: ...
    def __call__(self, *inputs: Any, out: Any = None, **named: Any) -> Any: ...
    def _bind(self, inputs: dict[str, Any], /) -> Self: ...
    @property
    def workers(self) -> int: ...
    @workers.setter
    def workers(self, value: int | None) -> None: ...

def set_num_threads(threads: int, /) -> None: ...
def get_num_threads() -> int: ...
