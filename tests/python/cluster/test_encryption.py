"""Whom a server trusts with its store: the certificate of the database, and the one that it shows itself."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import trustme

from hitl import StoreError, _core
from tests.python.cluster.proxy import Proxy
from tests.python.support import postgres
from tests.python.support.served import Served

Listen = Callable[..., Proxy]

NONE = "postgresql://postgres@/none"
"""Who is refused does not get as far as to a database."""


@pytest.fixture
def authority() -> trustme.CA:
    return trustme.CA()


@pytest.fixture
def root(authority: trustme.CA, tmp_path: Path) -> Path:
    """A file with the authority's certificate."""
    authority.cert_pem.write_to_path(str(tmp_path / "root.pem"))
    return tmp_path / "root.pem"


@pytest.fixture
def listen() -> Iterator[Listen]:
    """Makes the database answer with a certificate; with `wanted`, to those alone who have one of that authority."""
    with ExitStack() as proxies:

        def start(certificate: trustme.LeafCert, wanted: trustme.CA | None = None) -> Proxy:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            certificate.configure_cert(context)
            if wanted is not None:
                context.verify_mode = ssl.CERT_REQUIRED
                wanted.configure_trust(context)
            return proxies.enter_context(Proxy(postgres.socket_of(postgres.server()), context))

        yield start


def address(proxy: Proxy, database: str, host: str = "localhost", **options: object) -> str:
    query = "&".join(f"{name}={value}" for name, value in {"sslmode": "verify-full", **options}.items())
    return f"postgresql://postgres@{host}:{proxy.port}{urlsplit(database).path}?{query}"


def refusal(store: str) -> str:
    with pytest.raises(StoreError) as refused:
        _core.store_schema(store)
    assert refused.value.code == "store_unreachable"
    return str(refused.value)


def test_a_server_keeps_its_sessions_over_an_encrypted_connection(
    authority: trustme.CA, root: Path, listen: Listen, database: str
) -> None:
    proxy = listen(authority.issue_cert("localhost"))
    with Served("playbook", store=address(proxy, database, sslrootcert=root)) as server:
        session_id = server.api.create()
        server.api.play(session_id, "echo", "hi")
        assert server.api.wait(session_id)["status"] == "idle"


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_every_mode_that_encrypts_wants_a_certificate_of_the_authority(mode: str, root: Path, listen: Listen) -> None:
    proxy = listen(trustme.CA().issue_cert("localhost"))
    assert "UnknownIssuer" in refusal(address(proxy, NONE, sslmode=mode, sslrootcert=root))


def test_the_authorities_of_the_machine_hold_where_none_is_named(authority: trustme.CA, listen: Listen) -> None:
    proxy = listen(authority.issue_cert("localhost"))
    assert "UnknownIssuer" in refusal(address(proxy, NONE))


@pytest.mark.parametrize("mode", ["require", "verify-ca", "verify-full"])
def test_every_mode_that_encrypts_wants_the_name_that_was_asked_for(
    mode: str, authority: trustme.CA, root: Path, listen: Listen
) -> None:
    proxy = listen(authority.issue_cert("db.example"))
    assert "localhost" in refusal(address(proxy, NONE, sslmode=mode, sslrootcert=root))


def test_an_address_of_numbers_has_to_be_in_the_certificate(
    authority: trustme.CA, root: Path, listen: Listen, database: str
) -> None:
    named, numbered = listen(authority.issue_cert("localhost")), listen(authority.issue_cert("127.0.0.1"))
    assert "127.0.0.1" in refusal(address(named, database, "127.0.0.1", sslrootcert=root))
    assert _core.store_schema(address(numbered, database, "127.0.0.1", sslrootcert=root))[0] is None


def test_a_certificate_that_is_over_is_refused(authority: trustme.CA, root: Path, listen: Listen) -> None:
    yesterday = datetime.now(UTC) - timedelta(days=1)
    proxy = listen(authority.issue_cert("localhost", not_after=yesterday))
    assert "Expired" in refusal(address(proxy, NONE, sslrootcert=root)).replace("expired", "Expired")


def test_who_has_no_certificate_is_refused_where_one_is_asked_for(
    authority: trustme.CA, root: Path, listen: Listen, database: str, tmp_path: Path
) -> None:
    proxy = listen(authority.issue_cert("localhost"), wanted=authority)
    refusal(address(proxy, database, sslrootcert=root))
    own, foreign = authority.issue_cert("hitl"), trustme.CA().issue_cert("hitl")
    for name, certificate in {"own": own, "foreign": foreign}.items():
        certificate.cert_chain_pems[0].write_to_path(str(tmp_path / f"{name}.pem"))
        certificate.private_key_pem.write_to_path(str(tmp_path / f"{name}.key"))

    def shown(name: str) -> str:
        paths = {"sslcert": tmp_path / f"{name}.pem", "sslkey": tmp_path / f"{name}.key"}
        return address(proxy, database, sslrootcert=root, **paths)

    assert _core.store_schema(shown("own"))[0] is None
    refusal(shown("foreign"))


def test_files_that_are_no_use_are_told_of_before_anybody_is_connected_to(
    authority: trustme.CA, root: Path, tmp_path: Path
) -> None:
    certificate = authority.issue_cert("hitl")
    certificate.cert_chain_pems[0].write_to_path(str(tmp_path / "own.pem"))
    certificate.private_key_pem.write_to_path(str(tmp_path / "own.key"))
    (tmp_path / "empty.pem").write_text("")
    options = {
        "sslcert and sslkey are given together": {"sslcert": tmp_path / "own.pem"},
        "sslkey cannot be read": {"sslcert": tmp_path / "own.pem", "sslkey": tmp_path / "none"},
        "sslcert cannot be read": {"sslcert": tmp_path / "empty.pem", "sslkey": tmp_path / "own.key"},
        "sslcert and sslkey are of no use": {"sslcert": root, "sslkey": tmp_path / "own.key"},
    }
    for told, given in options.items():
        query = "&".join(f"{name}={value}" for name, value in given.items())
        with pytest.raises(StoreError, match=told) as refused:
            _core.store_schema(f"postgresql://hitl@localhost:1/hitl?sslmode=require&{query}")
        assert refused.value.code == "store_address_invalid"
