"""`thinwire registry`: the same results with and without a running registry."""

import json

import pytest
from verb_processes import running

from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.main import main

TOPIC = "registry.rooms"
NAMES = "SELECT ?name WHERE { ?schema a tw:EventSchema ; tw:name ?name }"


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A broker without a registry, with a published topic."""
    path = tmp_path_factory.mktemp("registry") / "events.jsonl"
    path.write_text("".join(json.dumps({"room": f"R{i % 2}", "t": 20 + i / 10}) + "\n" for i in range(6)))
    with EmbeddedServer() as server:
        assert main(["pub", TOPIC, str(path), "--to", server.url, "--infer", "--dimensions", "room"]) == 0
        yield server.url


def run(capsys, *args, code=0):
    assert main(["registry", *args]) == code, capsys.readouterr()
    return capsys.readouterr()


def test_documents_are_read_without_a_running_registry(bare, capsys):
    printed = run(capsys, "get", TOPIC, "--to", bare)
    assert json.loads(printed.out)["schema"]["name"] == TOPIC
    assert printed.err == ""
    [topic] = json.loads(run(capsys, "list", "--json", "--to", bare).out)["topics"]
    assert (topic["topic"], topic["properties"]) == (TOPIC, 2)
    assert json.loads(run(capsys, "query", NAMES, "--json", "--to", bare).out)["rows"] == [[TOPIC]]


def test_commands_beside_a_running_registry(bare, tmp_path, capsys):
    with running("up", "--to", bare, "--json") as (_, line):
        assert (line["url"], line["dir"]) == (bare, None)
        output = run(capsys, "get", TOPIC, "--to", bare)
        assert json.loads(output.out)["topic"] == TOPIC
        assert output.err == ""
        assert json.loads(run(capsys, "get", f"topic.{TOPIC}", "--to", bare).out)["document"]["topic"] == TOPIC
        [key] = json.loads(run(capsys, "list", "schema", "--json", "--to", bare).out)["keys"]
        assert key.startswith(f"schema.{TOPIC}.")
        assert TOPIC in run(capsys, "list", "--to", bare).out
        query_file = tmp_path / "names.rq"
        query_file.write_text(NAMES)
        answer = json.loads(run(capsys, "query", f"@{query_file}", "--json", "--to", bare).out)
        assert answer["rows"] == [[TOPIC]]
        assert "yes" in run(capsys, "query", "ASK { ?s a tw:EventSchema }", "--to", bare).out
        graph = "CONSTRUCT { ?s tw:name ?n } WHERE { ?s a tw:EventSchema ; tw:name ?n }"
        assert f'"{TOPIC}"' in run(capsys, "query", graph, "--turtle", "--to", bare).out
        assert "omit --turtle" in run(capsys, "query", NAMES, "--turtle", "--to", bare, code=2).err
        assert "not a SPARQL query" in run(capsys, "query", "SELECT", "--to", bare, code=2).err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("get", "registry.nothing"), "unknown topic"),
        (("get", "topic.registry.nothing"), "no document under this key"),
        (("list", "things"), "no such kind of document"),
        (("query", "@/no/such/file"), "No such file"),
    ],
)
def test_invalid_arguments_are_refused(url, args, complaint, capsys):
    assert complaint in run(capsys, *args, "--to", url, code=2).err
