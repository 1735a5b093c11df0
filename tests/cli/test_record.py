"""`thinwire record`: every message of the logs is in the files once, also after several interruptions."""

import asyncio
import json
import signal

import pytest
from verb_processes import TIMEOUT, start, wait_until

from thinwire import connect
from thinwire.brokers.embedded import EmbeddedServer
from thinwire.brokers.protocol import Retention
from thinwire.brokers.recording import open_recording
from thinwire.cli.main import main
from thinwire.topics.names import CHECKPOINTS, REGISTRY, log_of

TOPIC = "record.rooms"
LOG = log_of(TOPIC)


@pytest.fixture(scope="module")
def broker():
    """A broker without services, so that its logs contain only messages of the tests."""
    with EmbeddedServer() as server:
        yield server.url


@pytest.fixture(scope="module")
def filled(broker, tmp_path_factory):
    """The URL of a broker with stored events of a topic."""
    publish(broker, tmp_path_factory.mktemp("record"), TOPIC, 40)
    return broker


def publish(url, folder, topic, count):
    path = folder / "events.jsonl"
    path.write_text("".join(json.dumps({"room": f"R{i % 2}", "t": 20 + i % 9 / 10}) + "\n" for i in range(count)))
    args = ["--infer", "--dimensions", "room", "--retain", "--name", "p1", "--linger", "0", "--rate", "800"]
    assert main(["pub", topic, str(path), "--to", url, *args]) == 0


def record(capsys, url, path, *args, topic=TOPIC, code=0):
    capsys.readouterr()
    assert main(["record", topic, "--to", str(path), "--servers", url, "--json", *args]) == code, capsys.readouterr()
    output = capsys.readouterr()
    return (json.loads(output.out)["topics"][0] if code == 0 else None), output.err


def in_files(path, log=LOG):
    with open_recording(path) as recording:
        span = recording.span(log)
        return [stored for part in recording.read(log, span.first, span.last) for stored in part]


def at_broker(url, log=LOG):
    async def read():
        async with connect(url) as bus:
            span = await bus.broker.span(log)
            reader = await bus.broker.read(log, first=1)
            found = []
            while not found or found[-1].offset < span.last:
                found.append(await reader.next(TIMEOUT))
                reader.done(found[-1].offset)
            await reader.close()
            return found

    return asyncio.run(read())


def test_messages_and_documents_are_copied(filled, tmp_path, capsys):
    done, _ = record(capsys, filled, tmp_path / "new", "--until-caught-up")
    there = at_broker(filled)
    assert in_files(tmp_path / "new") == there
    assert (done["messages"], done["since"], done["last"], done["gaps"]) == (len(there), 1, there[-1].offset, [])
    with open_recording(tmp_path / "new") as recording:
        names = [key.partition(".")[0] for key in recording.documents(REGISTRY)]
        assert {"schema", "topic"} <= set(names)
        assert recording.last(LOG, "tw.log.record.rooms.*.k") is not None


def test_a_recording_is_continued_after_its_last_offset(broker, tmp_path, capsys):
    topic = "record.halls"
    for _ in range(2):
        publish(broker, tmp_path, topic, 12)
        _, errors = record(capsys, broker, tmp_path / "rec", "--until-caught-up", topic=topic)
    assert "continues after offset" in errors
    assert in_files(tmp_path / "rec", log_of(topic)) == at_broker(broker, log_of(topic))
    again, _ = record(capsys, broker, tmp_path / "rec", "--until-caught-up", topic=topic)
    assert (again["messages"], again["behind"]) == (0, 0)


def test_a_later_start_is_moved_to_the_key_frames_before_it(filled, tmp_path, capsys):
    there = at_broker(filled)
    done, _ = record(capsys, filled, tmp_path / "rec", "--until-caught-up", "--from", str(there[-1].offset))
    begun = in_files(tmp_path / "rec")
    keys = [stored.offset for stored in there[:-1] if stored.subject.endswith(".k")]
    assert begun == there[keys[-1] - 1 :]
    assert done["since"] == keys[-1]


@pytest.mark.parametrize("sign", [signal.SIGINT, signal.SIGTERM], ids=["interrupt", "terminate"])
def test_an_interrupted_recording_is_complete(filled, tmp_path, sign):
    path = tmp_path / "rec"
    process = start("record", TOPIC, "--to", str(path), "--servers", filled, "--json")
    wait_until(lambda: list(path.glob("logs/*/*.seg")))
    process.send_signal(sign)
    out, errors = process.communicate(timeout=TIMEOUT)
    assert process.returncode == 130, errors
    assert json.loads(out)["topics"][0]["behind"] == 0
    assert len(list(path.glob("logs/*/*.seg"))) == len(list(path.glob("logs/*/*.idx"))) == 1
    assert in_files(path) == at_broker(filled)


def test_a_killed_recording_is_readable_and_can_be_continued(filled, tmp_path, capsys):
    path = tmp_path / "rec"
    process = start("record", TOPIC, "--to", str(path), "--servers", filled)
    wait_until(lambda: list(path.glob("logs/*/*.seg")))
    process.kill()
    process.communicate(timeout=TIMEOUT)
    there = at_broker(filled)
    recorded = in_files(path)
    assert recorded == there[: len(recorded)]
    record(capsys, filled, path, "--until-caught-up")
    assert in_files(path) == there


def test_removed_messages_are_reported_as_a_gap(broker, tmp_path, capsys):
    topic = "record.short"

    async def append(count):
        async with connect(broker) as bus:
            await bus.broker.ensure_log(log_of(topic), [f"tw.log.{topic}.*.*"], Retention(max_messages=5))
            for _ in range(count):
                await bus.broker.append(log_of(topic), f"tw.log.{topic}.p1.d", b"...")

    asyncio.run(append(3))
    record(capsys, broker, tmp_path / "rec", "--until-caught-up", topic=topic)
    asyncio.run(append(20))
    done, errors = record(capsys, broker, tmp_path / "rec", "--until-caught-up", topic=topic)
    assert done["gaps"] == [[4, 18]]
    assert f"{topic}: offsets 4 to 18 are no longer in the log" in errors
    assert main(["record", "--info", str(tmp_path / "rec"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["logs"][0]["gaps"] == [[4, 18]]


def test_a_recreated_log_is_refused(broker, tmp_path, capsys):
    topic = "record.anew"

    async def begin(payload, count):
        async with connect(broker) as bus:
            await bus.broker.delete_log(log_of(topic))
            await bus.broker.ensure_log(log_of(topic), [f"tw.log.{topic}.*.*"])
            for _ in range(count):
                await bus.broker.append(log_of(topic), f"tw.log.{topic}.p1.d", payload)

    asyncio.run(begin(b"one", 4))
    record(capsys, broker, tmp_path / "rec", "--until-caught-up", topic=topic)
    for payload, count in ((b"one", 2), (b"two", 9)):
        asyncio.run(begin(payload, count))
        _, errors = record(capsys, broker, tmp_path / "rec", "--until-caught-up", topic=topic, code=2)
        assert "created again" in errors
    assert len(in_files(tmp_path / "rec", log_of(topic))) == 4


def test_checkpoints_are_copied_on_request(filled, tmp_path, capsys):
    async def put():
        from thinwire.topics.checkpoint_store import CheckpointStore

        async with connect(filled) as bus:
            store = CheckpointStore(await bus.broker.bucket(CHECKPOINTS), piece_size=10)
            await store.put(TOPIC, 3, {"log.p1": b"state of a link, in pieces"}, epoch=1)

    asyncio.run(put())
    record(capsys, filled, tmp_path / "with", "--until-caught-up", "--checkpoints")
    record(capsys, filled, tmp_path / "without", "--until-caught-up")
    with open_recording(tmp_path / "with") as recording:
        documents = recording.documents(CHECKPOINTS)
    assert b"".join(value for key, value in sorted(documents.items()) if key.startswith("part.")) == (
        b"state of a link, in pieces"
    )
    assert f"index.{TOPIC}" in documents
    with open_recording(tmp_path / "without") as recording:
        assert recording.documents(CHECKPOINTS) == {}


def test_info_describes_a_recording_and_check_finds_damage(filled, tmp_path, capsys):
    path = tmp_path / "rec"
    record(capsys, filled, path, "--seconds", "1.5")
    assert main(["record", "--info", str(path), "--check"]) == 0
    output = capsys.readouterr().out
    assert TOPIC in output
    assert "were read and verified" in output
    assert main(["record", "--info", str(path), "--json"]) == 0
    [about] = json.loads(capsys.readouterr().out)["logs"]
    there = at_broker(filled)
    assert (about["topic"], about["messages"], about["publishers"]) == (TOPIC, len(there), 1)
    [file] = path.glob("logs/*/*.seg")
    data = bytearray(file.read_bytes())
    data[-1] ^= 1
    file.write_bytes(data)
    assert main(["record", "--info", str(path), "--check"]) == 3
    complaint = capsys.readouterr().err
    assert "corrupt recording" in complaint
    assert file.name in complaint


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (("record.nothing", "--to", "{new}"), "unknown topic"),
        ((TOPIC,), "name the topics and --to FOLDER"),
        (("--to", "{new}"), "name the topics and --to FOLDER"),
        ((TOPIC, "--info", "{new}"), "--info reads a recording"),
        (("--info", "{new}"), "no recording in this folder"),
        ((TOPIC, "--to", "{new}", "--from", "yesterday"), "start is latest, earliest"),
        ((TOPIC, "--to", "{taken}"), "not empty"),
    ],
)
def test_invalid_arguments_are_refused(filled, tmp_path, args, complaint, capsys):
    taken = tmp_path / "taken"
    taken.mkdir()
    (taken / "thesis.txt").write_text("mine")
    args = [arg.format(new=tmp_path / "new", taken=taken) for arg in args]
    assert main(["record", *args, "--servers", filled]) == 2
    assert complaint in capsys.readouterr().err
    assert not (tmp_path / "new").exists()
