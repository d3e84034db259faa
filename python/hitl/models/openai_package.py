"""What the chat clients share that stand on the `openai` package."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from hitl.models.provider import ProviderClient

if TYPE_CHECKING:
    from openai import AsyncOpenAI

_PASSING = ("overloaded", "server_error", "rate_limit")


class OpenAIPackageClient(ProviderClient["AsyncOpenAI"]):
    """A chat client on the `openai` package: `base_url` is `OPENAI_BASE_URL` by default, else OpenAI."""

    provider: ClassVar[str] = "openai"
    _package: ClassVar[str] = "openai"
    _key_variables: ClassVar[tuple[str, ...]] = ("OPENAI_API_KEY",)
    _credentials: ClassVar[frozenset[str]] = frozenset({"provider", "workload_identity", "admin_api_key"})

    def _make(self, options: dict[str, Any]) -> AsyncOpenAI:
        from openai import AsyncOpenAI

        return AsyncOpenAI(**options, max_retries=0)

    async def _close(self, client: AsyncOpenAI) -> None:
        await client.close()

    def _is_passing_in_stream(self, error: Exception) -> bool:
        from openai import APIError

        if not isinstance(error, APIError) or hasattr(error, "status_code"):
            return False
        said = f"{error.type} {error.code} {error.message}".lower()
        return any(word in said for word in _PASSING)
