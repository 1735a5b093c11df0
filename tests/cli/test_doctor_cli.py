"""`thinwire doctor` and credentials: each fault is reported with a remedy, and no secret is printed."""

import json

import pytest

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli import doctor as doctor_checks
from thinwire.cli.main import main

TOKEN = "s3cret"


@pytest.fixture(scope="module")
def guarded():
    """A broker that requires a token."""
    with EmbeddedServer(lines=[f"authorization {{ token: {TOKEN} }}"]) as server:
        yield server.url


def doctor(capsys, *args, code=0):
    assert main(["doctor", *args, "--json"]) == code, capsys.readouterr()
    document = json.loads(capsys.readouterr().out)
    assert document["fine"] is (code == 0)
    return {check["check"]: check for check in document["checks"]}


def test_a_complete_system_passes(url, tmp_path, capsys):
    checks = doctor(capsys, url, "--dir", str(tmp_path))
    assert {check["verdict"] for check in checks.values()} <= {"ok", "warn"}
    for name in ("Python", "nats-server", "embedded broker", "broker", "credentials", "JetStream", "registry", "clock"):
        assert checks[name]["verdict"] == "ok", checks[name]
    assert "ahead" in checks["clock"]["found"] or "behind" in checks["clock"]["found"]
    assert main(["doctor", "--quick"]) == 0
    assert "no check failed" in capsys.readouterr().out


def test_no_broker_at_the_address(capsys):
    broker = doctor(capsys, "nats://127.0.0.1:1", "--quick", code=1)["broker"]
    assert broker["verdict"] == "fail"
    assert "thinwire up" in broker["remedy"]


def test_no_jetstream(capsys):
    with EmbeddedServer(lines=["jetstream: disabled"]) as server:
        checks = doctor(capsys, server.url, "--quick", code=1)
    assert (checks["broker"]["verdict"], checks["JetStream"]["verdict"]) == ("ok", "fail")
    assert "nats-server -js" in checks["JetStream"]["remedy"]


def test_a_token_from_a_file_or_the_environment(guarded, tmp_path, monkeypatch, capsys):
    token = tmp_path / "token"
    token.write_text(f"{TOKEN}\n")
    assert doctor(capsys, guarded, "--quick", "--token-file", str(token))["registry"]["verdict"] == "warn"
    monkeypatch.setenv("THINWIRE_TOKEN", TOKEN)
    monkeypatch.setenv("THINWIRE_URL", guarded)
    assert main(["registry", "list"]) == 0
    monkeypatch.setenv("THINWIRE_TOKEN", "wr0ng")
    capsys.readouterr()
    for verb in (["sub", "rooms"], ["registry", "list"], ["up", "--to", guarded]):
        assert main(verb) == 2
        errors = capsys.readouterr().err
        assert "the credentials are missing or wrong" in errors
        assert "wr0ng" not in errors
    checks = doctor(capsys, "--quick", code=1)
    assert checks["credentials"]["verdict"] == "fail"
    assert "wr0ng" not in json.dumps(checks)


def test_an_empty_token_file_is_reported(guarded, tmp_path, capsys):
    (tmp_path / "token").touch()
    assert main(["doctor", guarded, "--quick", "--token-file", str(tmp_path / "token")]) == 2
    assert "the token file is empty" in capsys.readouterr().err


def test_old_version_and_small_payload_are_reported():
    assert doctor_checks.check_version({"version": "2.10.29"}).verdict == "fail"
    assert doctor_checks.check_version({"version": "2.12.0"}).verdict == "ok"
    assert doctor_checks.check_payload({"max_payload": 65_536}).verdict == "warn"


def test_missing_parts_of_this_machine_are_reported(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    assert doctor_checks.check_java().verdict == "warn"
    monkeypatch.setattr(doctor_checks, "MIN_FREE_DISK", 1 << 60)
    assert doctor_checks.check_disk(tmp_path / "later").verdict == "warn"
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "fresh"))
    assert "the first run compiles" in doctor_checks.check_kernels().found
