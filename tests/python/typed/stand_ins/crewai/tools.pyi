from collections.abc import Callable
from typing import Any

def tool(name: str) -> Callable[[Callable[..., Any]], Any]: ...
