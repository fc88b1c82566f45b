"""Tokens, what may be bound without one, and certificate authorities."""

import copy
import errno
import os
import pickle
import stat
import sys

import pytest

from aioflow import cli, errors
from aioflow.net.transport.authority import init, issue
from aioflow.net.transport.credentials import Token, check_binding, client_tls, is_loopback, load_token, server_tls

SECRET = "correct-horse-battery"


def test_a_token_is_read_from_a_file_or_from_the_environment(tmp_path):
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(f"{SECRET}\n")
    wanted = f"Bearer {SECRET}"
    assert load_token(file, {}).header() == wanted
    assert load_token(str(file), {"AIOFLOW_TOKEN": "something-else-entirely"}).header() == wanted
    assert load_token(None, {"AIOFLOW_TOKEN": f" {SECRET} "}).header() == wanted
    assert load_token(None, {}) is None
    assert load_token(None, {"AIOFLOW_TOKEN": " "}) is None


@pytest.mark.parametrize(
    "secret", ["", "short", "with a space in between", "with\nlines-in-between", "é" * 20, "\x00" * 20]
)
def test_what_is_no_token_is_refused_and_not_shown(tmp_path, secret):
    file = tmp_path / "token"
    file.touch(0o600)
    file.write_text(secret)
    with pytest.raises(errors.InvalidArgumentError, match=f"{file}: a token has at least 16 printable") as caught:
        load_token(file, {})
    assert not secret or secret not in str(caught.value)


@pytest.mark.parametrize("secret", [1234567890123456, SECRET.encode(), None])
def test_a_token_of_a_wrong_kind_is_refused_and_not_shown(secret):
    with pytest.raises(TypeError, match="a token is a str, not a value of type") as caught:
        Token(secret)
    assert str(secret) not in str(caught.value) or secret is None


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such permissions")
@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o601, 0o666])
def test_a_token_file_that_other_users_can_access_is_refused(tmp_path, mode):
    file = tmp_path / "token"
    file.write_text(SECRET)
    file.chmod(mode)
    with pytest.raises(errors.PermissionDeniedError, match=f"{file} is open to other users .mode {mode:04o}.: chmod 6"):
        load_token(file, {})
    file.chmod(0o600)
    assert load_token(file, {}).header() == f"Bearer {SECRET}"


def test_a_secret_of_another_user_is_read_with_any_mode(tmp_path, monkeypatch):
    file = tmp_path / "token"
    file.write_text(SECRET)
    file.chmod(0o444)
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    assert load_token(file, {}).header() == f"Bearer {SECRET}"


def test_a_variable_that_holds_no_token_is_named():
    with pytest.raises(errors.InvalidArgumentError, match=r"AIOFLOW_TOKEN: a token has at least 16 .* one has 5"):
        load_token(None, {"AIOFLOW_TOKEN": "short"})


def test_a_token_file_that_is_missing_is_named(tmp_path):
    with pytest.raises(errors.NotFoundError, match="none cannot be read: No such file"):
        load_token(tmp_path / "none", {})


def test_a_token_matches_itself_alone():
    token = Token(SECRET)
    assert token.matches(f"Bearer {SECRET}")
    for header in ("", SECRET, f"bearer {SECRET}", f"Bearer {SECRET} ", f"Bearer {SECRET}x", "Bearer é", "\udcff"):
        assert not token.matches(header)


def test_a_token_shows_itself_nowhere():
    token = Token(SECRET)
    assert repr(token) == str(token) == "<Token>"
    for copying in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="a token is not copied"):
            copying(token)


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.8.8", "::1", "localhost", "LOCALHOST"])
def test_this_machine_alone_needs_no_credential(host):
    assert is_loopback(host)
    check_binding(host, None, None)


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.0.0.1", "example.com", "", "127.0.0.1.example.com"])
def test_what_others_can_reach_does(host):
    with pytest.raises(
        errors.FailedPreconditionError, match="can be reached from other machines, and clients need no credential"
    ):
        check_binding(host, None, None)
    check_binding(host, Token(SECRET), None)


# Certificates


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("cryptography", reason="the package cryptography is not installed")
    return tmp_path / "ca"


def test_an_authority_is_made_with_a_certificate_for_this_machine_and_others(folder):
    from cryptography import x509

    files = init(folder, ["head", "10.0.0.7"])
    assert [file.name for file in files] == ["ca.key", "ca.pem", "node.key", "node.pem"]
    assert [stat.S_IMODE(file.stat().st_mode) for file in files[::2]] == [0o600, 0o600]
    node = x509.load_pem_x509_certificate((folder / "node.pem").read_bytes())
    names = node.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    assert names.get_values_for_type(x509.DNSName) == ["localhost", "head"]
    assert [str(ip) for ip in names.get_values_for_type(x509.IPAddress)] == ["127.0.0.1", "::1", "10.0.0.7"]
    node.verify_directly_issued_by(x509.load_pem_x509_certificate((folder / "ca.pem").read_bytes()))


def test_mutual_tls_is_a_credential_and_tls_alone_is_none(folder):
    init(folder)
    check_binding("0.0.0.0", None, server_tls(folder))
    with pytest.raises(errors.FailedPreconditionError):
        check_binding("0.0.0.0", None, server_tls(folder, mutual=False))


def test_an_authority_that_is_there_is_left_alone(folder):
    init(folder)
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    with pytest.raises(errors.AlreadyExistsError, match=r"ca\.key exists, and is left as it is"):
        init(folder)
    with pytest.raises(errors.AlreadyExistsError, match=r"node\.key exists"):
        issue(folder, "node", ["x"])
    assert {file.name: file.read_bytes() for file in folder.iterdir()} == before


@pytest.mark.parametrize(("name", "hosts"), [("../evil", ["x"]), ("", ["x"]), ("a/b", ["x"]), ("fine", [])])
def test_names_are_names_of_files(folder, name, hosts):
    init(folder)
    with pytest.raises(errors.InvalidArgumentError, match="needs hosts, and a name"):
        issue(folder, name, hosts)


def test_a_certificate_without_an_authority_is_not_made(folder):
    folder.mkdir()
    with pytest.raises(errors.NotFoundError, match=r"no authority: ca\.pem is missing; make one by `aioflow"):
        issue(folder, "node", ["x"])
    init(folder)
    (folder / "ca.key").unlink()
    with pytest.raises(errors.NotFoundError, match=r"no authority: ca\.key is missing"):
        issue(folder, "gpu", ["x"])


@pytest.mark.parametrize("host", ["münchen", "", "a b", "-a", "a/b", "fe80::1::2"])
def test_a_host_that_is_none_leaves_nothing_behind(folder, host):
    with pytest.raises(errors.InvalidArgumentError, match="is not a host: write an ASCII name"):
        init(folder, ["fine", host])
    assert not folder.exists()
    init(folder)
    with pytest.raises(errors.InvalidArgumentError, match="is not a host: write an ASCII name"):
        issue(folder, "gpu", [host])
    assert sorted(file.name for file in folder.iterdir()) == ["ca.key", "ca.pem", "node.key", "node.pem"]


@pytest.mark.parametrize("there", ["ca.key", "ca.pem", "node.key", "node.pem"])
def test_an_authority_is_not_made_around_a_file_that_is_there(folder, there):
    folder.mkdir()
    (folder / there).write_text("it")
    with pytest.raises(errors.AlreadyExistsError, match=f"{there} exists, and is left as it is"):
        init(folder)
    assert [(file.name, file.read_text()) for file in folder.iterdir()] == [(there, "it")]


def test_an_authority_that_cannot_be_written_whole_is_removed_again(folder, monkeypatch):
    def full(path, *arguments):
        if path.name == "node.pem":
            raise OSError(errno.ENOSPC, "No space left on device")
        return opened(path, *arguments)

    opened = os.open
    monkeypatch.setattr("aioflow.net.transport.authority.os.open", full)
    with pytest.raises(OSError, match="No space left"):
        init(folder)
    assert list(folder.iterdir()) == []


def test_an_authority_whose_key_is_of_another_signs_nothing(folder, tmp_path):
    init(folder)
    init(tmp_path / "other")
    (folder / "ca.key").write_bytes((tmp_path / "other" / "ca.key").read_bytes())
    with pytest.raises(errors.InvalidArgumentError, match=r"ca\.key is not the key of ca\.pem"):
        issue(folder, "gpu", ["x"])
    (folder / "ca.key").write_text("no key")
    with pytest.raises(errors.InvalidArgumentError, match=r"the authority in .* cannot be used"):
        issue(folder, "gpu", ["x"])
    assert not (folder / "gpu.key").exists()


def test_certificates_that_are_missing_are_named(tmp_path):
    for make in (server_tls, client_tls):
        with pytest.raises(errors.FailedPreconditionError, match=f"certificates in {tmp_path} cannot be used"):
            make(tmp_path)


def test_the_command_line_makes_both(folder, capsys):
    assert cli.main(["ca", "init", str(folder), "--host", "head"]) == 0
    assert cli.main(["ca", "issue", str(folder), "gpu", "--host", "gpu1", "--host", "10.0.0.8"]) == 0
    made = [str(folder / name) for name in ("ca.key", "ca.pem", "node.key", "node.pem", "gpu.key", "gpu.pem")]
    assert capsys.readouterr().out.splitlines() == made
    assert server_tls(folder, "gpu").verify_mode.name == "CERT_REQUIRED"
    assert cli.main(["ca", "init", str(folder)]) == 1
    assert "exists, and is left as it is" in capsys.readouterr().err
