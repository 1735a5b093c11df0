"""`thinwire dict list`, `show`, `why` and `verify`, without Spark."""

import asyncio
import json
from datetime import UTC, datetime

import pytest
from verb_processes import start

import thinwire as tw
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.cli.connection_options import BrokerAccess
from thinwire.cli.dict_train import upload
from thinwire.cli.main import main
from thinwire.dictionaries import Dictionary, train
from thinwire.errors import SparkUnavailable
from thinwire.topics.names import DICTIONARIES

TOPIC = "dict.rooms"
ROOMS = [b'{"sensor":"T%d","room":"11.%d","said":"nothing to report","t":%d.5}' % (n % 9, n % 7, n % 31) for n in range(600)]  # fmt: skip  # noqa: E501
FIRST, SECOND = train(ROOMS[:300], 1024), train(ROOMS, 1024, codec="zlib", level=6)


def note(n):
    return {"room": f"11.{n % 3}", "said": f"nothing to report, but the door was opened {n} times", "n": n}


async def _published(url):
    """Publish on a topic whose log binds the first dictionary, and upload both dictionaries."""
    schema = tw.Schema(
        TOPIC, [tw.Property("room", "string", "dimension"), tw.Property("said", "string"), tw.Property("n", "integer")]
    )
    async with tw.connect(url) as bus:
        await bus.register(schema, retain=True, format="json")
        async with bus.publisher(TOPIC, name="p1") as out:
            await out.session.topic.store_dictionary(FIRST)
            out.session.send(out.encoder.use(FIRST, 7))
            for n in range(20):
                await out.publish(note(n))
    for dictionary in (FIRST, SECOND):
        await upload(BrokerAccess(url), TOPIC, dictionary, days=2)


@pytest.fixture(scope="module")
def broker():
    with EmbeddedServer() as server:
        asyncio.run(_published(server.url))
        yield server.url


def run(capsys, *args, code=0):
    assert main(["dict", *args]) == code, capsys.readouterr()
    return capsys.readouterr()


def document(capsys, *args, code=0):
    return json.loads(run(capsys, *args, "--json", code=code).out)


def test_the_list_shows_used_and_stored_dictionaries(broker, capsys):
    result = document(capsys, "list", "--to", broker)["dictionaries"]
    assert [(row["hash"], row["state"]) for row in result] == [(SECOND.hash.hex(), "used"), (FIRST.hash.hex(), "kept")]
    assert result[0]["expires"] - datetime.now(UTC).timestamp() == pytest.approx(2 * 86_400, abs=600)
    assert result[0]["trained_messages"] == 600
    shown = run(capsys, "list", TOPIC, "--to", broker).out
    assert SECOND.hash.hex()[:12] in shown
    assert f"{SECOND.facts.ratio:.1f} %" in shown
    assert document(capsys, "list", "dict.others", "--to", broker) == {"dictionaries": []}
    assert "dict train" in run(capsys, "list", "dict.others", "--to", broker).out


def test_show_prints_facts_lineage_and_content(broker, tmp_path, capsys):
    result = document(capsys, "show", SECOND.hash.hex()[:6], "--to", broker)
    assert (result["hash"], result["codec"], result["bytes"]) == (SECOND.hash.hex(), "zlib", len(SECOND.content))
    assert result["topics"] == [TOPIC]
    assert result["packed"] > 0
    assert any("nothing to report" in piece for piece in result["content"])
    path = tmp_path / "rooms.dict"
    path.write_bytes(FIRST.encode())
    shown = run(capsys, "show", str(path)).out
    assert FIRST.hash.hex() in shown
    assert "600" not in shown
    assert "300 messages" in shown


def test_lineage_leads_to_the_parent(broker, capsys):
    third = Dictionary(SECOND.content + b'{"floor": 3}', "zlib", 6, SECOND.largest, facts=SECOND.facts)
    result = asyncio.run(upload(BrokerAccess(broker), "dict.lineage", SECOND, 1))
    assert result.parent == ""
    result = asyncio.run(upload(BrokerAccess(broker), "dict.lineage", third, 1))
    assert result.parent == SECOND.hash.hex()
    shown = document(capsys, "show", third.hash.hex(), "--to", broker)
    assert shown["lineage"] == [SECOND.hash.hex()]
    assert shown["changed"] == result.bytes < shown["packed"]


def test_a_second_upload_changes_nothing(broker, capsys):
    first, again = (asyncio.run(upload(BrokerAccess(broker), "dict.twice", FIRST, 1)) for _ in range(2))
    assert (first.hash, again.hash) == (FIRST.hash.hex(), FIRST.hash.hex())
    assert again.expires >= first.expires
    assert len(document(capsys, "list", "dict.twice", "--to", broker)["dictionaries"]) == 1


def test_a_lost_dictionary_is_withdrawn_before_another_upload(broker, capsys):
    lost = train(ROOMS[:200], 512)
    asyncio.run(upload(BrokerAccess(broker), "dict.lost", lost, 1))
    asyncio.run(_replace(broker, lost.hash.hex(), None))
    result = asyncio.run(upload(BrokerAccess(broker), "dict.lost", FIRST, 1))
    assert result.hash == FIRST.hash.hex()
    decisions = document(capsys, "why", "dict.lost", "--to", broker)["decisions"]
    assert [one["kind"] for one in decisions] == ["replace", "withdraw", "replace"]


def test_why_lists_decisions_newest_first(broker, capsys):
    result = document(capsys, "why", TOPIC, "--to", broker)["decisions"]
    assert [(one["kind"], one["hash"]) for one in result] == [("replace", d.hash.hex()) for d in (SECOND, FIRST)]
    assert result[0]["why"]["trained on"] == 600
    shown = run(capsys, "why", TOPIC, "--to", broker).out
    assert "by thinwire dict train" in shown
    assert "no decisions" in run(capsys, "why", "dict.others", "--to", broker).out


def test_verify_finds_a_dictionary_that_the_store_lost(broker, capsys):
    result = document(capsys, "verify", TOPIC, "--to", broker)
    assert result["good"]
    needed = {one["hash"]: one["needed"] for one in result["dictionaries"]}
    assert needed[SECOND.hash.hex()] == "publishers"
    assert "bindings of the log" in needed[FIRST.hash.hex()]
    # The second dictionary: the store may hold it as a change of the first, which is then needed to read it.
    entry = asyncio.run(_replace(broker, SECOND.hash.hex(), None))
    try:
        result = document(capsys, "verify", TOPIC, "--to", broker, code=3)
        assert {one["hash"]: one["verdict"][:7] for one in result["dictionaries"]} == {
            SECOND.hash.hex(): "missing",
            FIRST.hash.hex(): "good",
        }
        states = {one["hash"]: one["there"] for one in document(capsys, "list", TOPIC, "--to", broker)["dictionaries"]}
        assert states == {SECOND.hash.hex(): False, FIRST.hash.hex(): True}
    finally:
        asyncio.run(_replace(broker, SECOND.hash.hex(), entry))
    assert document(capsys, "verify", TOPIC, "--to", broker)["good"]


def test_verify_finds_other_content_under_a_hash(broker, capsys):
    wrong = asyncio.run(_replace(broker, FIRST.hash.hex(), None))
    before = asyncio.run(_replace(broker, SECOND.hash.hex(), wrong))
    try:
        shown = run(capsys, "verify", SECOND.hash.hex(), "--to", broker, code=3).out
        assert "not the requested one" in shown
        assert "corrupt dictionary" in run(capsys, "show", SECOND.hash.hex(), "--to", broker, code=3).err
    finally:
        asyncio.run(_replace(broker, FIRST.hash.hex(), wrong))
        asyncio.run(_replace(broker, SECOND.hash.hex(), before))


async def _replace(url, key, value):
    """Put another value under a key and return the previous one."""
    async with tw.connect(url) as bus:
        bucket = await bus.broker.bucket(DICTIONARIES)
        entry = await bucket.get(key)
        await (bucket.delete(key) if value is None else bucket.put(key, value))
        return entry.value if entry is not None else None


def test_files_are_checked_without_a_broker(tmp_path, capsys):
    good, renamed, broken = (tmp_path / name for name in ("rooms.dict", f"{'ab' * 16}.dict", "broken.dict"))
    good.write_bytes(FIRST.encode())
    renamed.write_bytes(FIRST.encode())
    broken.write_bytes(FIRST.encode()[:-1])
    assert "all 1 are good" in run(capsys, "verify", str(good)).out
    assert "the hash of another dictionary" in run(capsys, "verify", str(renamed), code=3).out
    assert "corrupt dictionary" in run(capsys, "verify", str(broken), code=3).out
    assert "corrupt dictionary" in run(capsys, "show", str(broken), code=3).err


@pytest.mark.slow
def test_training_from_files_writes_and_uploads(broker, tmp_path, capsys):
    pytest.importorskip("pyspark", reason="extra spark")
    from thinwire.spark.session import check

    try:
        check()
    except SparkUnavailable as problem:
        pytest.skip(str(problem))
    paths = [tmp_path / "a.jsonl", tmp_path / "b.jsonl"]
    for path, part in zip(paths, (ROOMS[:300], ROOMS[300:]), strict=True):
        path.write_bytes(b"\n".join(part))
    out = tmp_path / "made" / "rooms.dict"
    args = [
        "--topic",
        "dict.trained",
        "--to",
        broker,
        "--out",
        str(out),
        "--size",
        "1k",
        "--master",
        "local[2]",
        "--json",
    ]
    done = start("dict", "train", "--from", *map(str, paths), *args)
    output, errors = done.communicate()
    assert done.returncode == 0, errors
    result = json.loads(output)
    assert (result["messages"], result["uploaded"]["topic"]) == (600, "dict.trained")
    assert [one["name"] for one in result["candidates"] if one["chosen"]]
    assert result["candidates"][-1]["name"] == "deflate"
    assert document(capsys, "show", str(out))["hash"] == result["hash"]
    [row] = document(capsys, "list", "dict.trained", "--to", broker)["dictionaries"]
    assert (row["hash"], row["state"]) == (result["hash"], "used")


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("show", "rooms"), "neither a file nor a hash"),
        (("show", "0000"), "no hash starts with this"),
        (("show", "0" * 32), "no such dictionary"),
        (("verify", "dict.nothing"), "no log and no dictionary of it"),
        (("why", "a topic"), "a topic is words"),
    ],
)
def test_invalid_arguments_give_a_remedy(broker, args, complaint, capsys):
    assert complaint in run(capsys, *args, "--to", broker, code=2).err


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("--from", "no/such.jsonl"), "no such file"),
        (("--from", "rooms.jsonl"), "no such file"),
        (("--from", "dict.rooms", "--size", "16q"), "a size is 256 bytes"),
        (("--from", "dict.rooms", "--column", "payload"), "a topic log has no columns"),
        (("--from", __file__, "--to", "nats://127.0.0.1:1"), "name the topic of the dictionary"),
    ],
)
def test_invalid_training_options_are_refused_before_spark_starts(args, complaint, capsys):
    pytest.importorskip("pyspark")
    assert complaint in run(capsys, "train", *args, code=2).err
