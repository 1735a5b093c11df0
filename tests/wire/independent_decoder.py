"""A decoder written from docs/wire.md alone: it shares no line with thinwire.

It turns messages into events and watermarks, and waits for a key frame after anything it did not expect. Left out: the
lanes GEO, ARRAY and OPAQUE (but for payloads), JSON frames, recognising duplicates, bounds, flags, reports of loss, and
the limits.
"""

import hashlib
import json
import struct
import zlib
from datetime import datetime, timedelta
from fractions import Fraction

import zstandard

LANES = {"boolean": "flag", "integer": "tick", "number": "tick", "timestamp": "tick", "float": "float"}
LINEAR, TREND, SEASONAL, FINE, EMPTY, FRESH, M = 1, 2, 3, 16, 32, 64, 1 << 61


def clamp(value, limit):
    return max(-limit, min(limit, value))


def unzigzag(z):
    return -(z + 1) // 2 if z % 2 else z // 2


def pattern_of(number):
    return struct.unpack(">Q", struct.pack(">d", number + 0.0))[0]


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def more(self):
        return self.at < len(self.data)

    def take(self, count):
        self.at += count
        return self.data[self.at - count : self.at]

    def varint(self):
        byte = self.take(1)[0]
        return byte if byte < 0x80 else byte - 0x80 + (self.varint() << 7)

    def signed(self):
        return unzigzag(self.varint())

    def blob(self):
        return self.take(self.varint())

    def exact(self):
        readers = {1: self.signed, 2: lambda: struct.unpack(">d", self.take(8))[0], 3: lambda: self.blob().decode()}
        readers[5] = lambda: [self.exact() for _ in range(self.varint())]
        tag = self.take(1)[0]
        return readers[tag]() if tag in readers else {0: None, 6: False, 7: True}[tag]


class Bits:
    def __init__(self, data):
        self.bits, self.at = "".join(f"{byte:08b}" for byte in data), 0

    def take(self, count):
        self.at += count
        return int(self.bits[self.at - count : self.at], 2)

    def code(self, scales, field):
        k = (scales[field] >> 5).bit_length()
        zeros = self.bits.index("1", self.at) - self.at
        z = self.take(2 * zeros + 1 + k) - (1 << k)
        scales[field] += (16 * min(z, 1 << 40) - scales[field] + 8) >> 4
        return z

    def mask(self, count):
        groups = [range(first, min(first + 8, count)) for first in range(0, count, 8)]
        used = [count <= 8 or self.take(1) for _ in groups]
        return {i for group, any_set in zip(groups, used, strict=True) if any_set for i in group if self.take(1)}


class Slot:
    """The state of one property of one source; a text is its own `x1`."""

    def __init__(self, p, columns):
        self.mode = self.offset = self.coefficients = 0
        self.trend, self.season = None, []
        if p["lane"] in ("float", "text"):
            first = columns.exact()
            self.x1 = pattern_of(first) if isinstance(first, float) else first
            return
        head = columns.take(1)[0]
        self.mode = head & 0x1F
        if head & 15 == TREND:
            self.coefficients = columns.varint()
        self.x1 = self.x2 = None if head & EMPTY else columns.signed()
        if head & 15 == LINEAR and not head & EMPTY:
            self.x2 = self.x1 - columns.signed()
        if head & 15 == TREND and not head & (EMPTY | FRESH):
            self.offset, self.trend = columns.signed(), columns.signed()
        if p["lane"] == "tick" and "period" in p:
            self.season = columns.exact()

    def damped(self):
        return (self.trend * (self.coefficients >> 18)) >> 8

    def expected(self, n):
        if self.x1 is not None and self.mode & 15 == LINEAR:
            return clamp(2 * self.x1 - self.x2, M)
        if self.x1 is not None and self.mode & 15 == TREND and self.trend is not None:
            return clamp(self.x1 + ((self.offset + self.damped()) >> 8), M)
        before = self.season[n % len(self.season)] if self.mode & 15 == SEASONAL else None
        return self.x1 if self.x1 is None or before is None else before

    def observe(self, x, n):
        if self.x1 is None:
            self.offset, self.trend = 0, None
        elif self.mode & 15 == TREND:
            self.smooth(clamp(x - self.x1, 1 << 38) * 256, self.coefficients & 511, self.coefficients >> 9 & 511)
        self.x2, self.x1 = x if self.x1 is None else self.x1, x
        if self.season:
            self.season[n % len(self.season)] = x

    def smooth(self, moved, alpha, beta):
        if self.trend is None:
            self.offset, self.trend = 0, moved if beta else 0
        else:
            missed = clamp(moved - self.offset - self.damped(), 1 << 46)
            self.offset = ((missed * alpha) >> 8) - missed
            self.trend = clamp(self.trend + ((missed * beta) >> 8), 1 << 46)

    def observe_exact(self, p, exact, n):
        if exact is None or p["lane"] == "text":
            self.x1 = exact
        elif p["lane"] == "float":
            self.x1 = pattern_of(exact)
        elif not isinstance(exact, str):
            self.observe(clamp(exact if isinstance(exact, int) else round(Fraction(exact) / p["unit"]), M), n)
        elif self.x1 is not None:
            self.observe(self.expected(n), n)


def shown(p, x):
    if x is None or p["lane"] == "text":
        return x
    if p["lane"] != "tick":
        return bool(x) if p["lane"] == "flag" else struct.unpack(">d", struct.pack(">Q", x))[0]
    if "iso" not in p.get("form", ""):
        up, down = p["unit"].as_integer_ratio()
        return x * up if down == 1 else x * up / down
    digits = int(p["form"][5])
    second, fraction = divmod(x, 10**digits)
    text = (datetime(1970, 1, 1) + timedelta(seconds=second)).isoformat(p["form"][4])
    return text + (f".{fraction:0{digits}d}" if digits else "") + p["form"][6:]


class Shared:
    """A stored dictionary, which unpacks bodies packed with it."""

    def __init__(self, stored):
        stored = Bytes(stored)
        version, self.codec, _level, facts = stored.take(4)
        assert version == 1
        self.largest = stored.varint()
        named, _parent = bytes((self.codec,)) + stored.data[4 : stored.at], stored.blob()
        if facts:
            _trained_on = stored.varint(), stored.varint(), stored.take(8)
        self.content = stored.blob()
        self.hash = hashlib.blake2b(named + self.content, digest_size=16, person=b"thinwire-dict-1").digest()

    def unpack(self, body):
        if not body:
            return body
        if self.codec == 3 and not body[0] & 1:
            body = (int.from_bytes(body, "little") * 4 + 3).to_bytes(len(body) + 2, "little")
        elif body[0] == 0x0F and self.codec == 3:
            body = body[1:]
        if self.codec in (1, 3):
            preset = zlib.decompressobj(-15, zdict=self.content[-32768:])
            return body[1:] if body[0] == 0x07 else preset.decompress(body)
        if body[0] == 0x0D:
            return body[1:]
        window = min(max((max(self.largest, 1) - 1).bit_length(), 10), 23)
        opening = bytes((0, window - 10 << 3)) + (len(body) << 3 | 5).to_bytes(3, "little")
        frame = b"\0" + body[1:] if body[0] == 0x1D else opening + body
        content = zstandard.ZstdCompressionDict(self.content)
        reader = zstandard.ZstdDecompressor(dict_data=content, format=zstandard.FORMAT_ZSTD1_MAGICLESS)
        return reader.decompress(frame, max_output_size=1 << 20)


class Decoder:
    """Decodes messages of one publisher to `("event", values, source, ordinal, virtual)`, `("watermark", seconds)`."""

    def __init__(self, schema, dictionaries=()):
        self.shared = {shared.hash: shared for shared in map(Shared, dictionaries)}
        self.opaque = [(p["name"], p["kind"]) for p in schema["properties"]] == [("payload", "opaque")]
        wire = [p for p in schema["properties"] if p.get("role") != "dimension" and not p.get("confidential")]
        self.wire = [{**p, "lane": LANES.get(p["kind"], "text"), "unit": Fraction(p.get("step", 1))} for p in wire]
        self.slotted = [i for i, p in enumerate(self.wire) if p["lane"] != "text"]
        text = json.dumps(schema, sort_keys=True, separators=(",", ":"))
        self.fingerprint = hashlib.sha256(text.encode()).digest()[:8]
        self.dimensions = [p["name"] for p in schema["properties"] if p.get("role") == "dimension"]
        self.sequence, self.incarnation, self.chain, self.lost, self.delivered = 0, -1, 0, True, {}

    def receive(self, message):
        self.out, batch = [], Bytes(message[1:])
        if message[0] & 15 != 9:
            self.take(message)
        while message[0] & 15 == 9 and batch.more():
            self.take(batch.blob())
        return self.out

    def take(self, raw):
        kind, wide, at = raw[0] & 15, raw[0] >> 4 & 1, 1 + (raw[0] >> 5 & 1)
        end = at + 1 + wide
        chain = zlib.crc32(raw[end + 1 :], zlib.crc32(raw[:end], 0 if kind == 4 else self.chain))
        low = (raw[0] >> 6, wide, int.from_bytes(raw[at:end], "big"))
        if kind == 4 and chain & 0xFF == raw[end]:
            self.key(Bytes(self.unpacked(raw[end + 1 :], raw[1] if at == 2 else None)), wide, chain)
        elif kind != 10 and not self.lost:
            expected = (self.incarnation & 3, self.wide, self.sequence % (65536 if wide else 256))
            self.lost = low != expected or chain & 0xFF != raw[end]
            if not self.lost:
                self.sequence, self.chain = self.sequence + 1, chain
                actions = {1: self.data, 2: self.data, 5: self.introduce, 6: self.switch, 7: self.beat, 8: self.switch}
                actions |= {12: self.bind, 13: self.payload}
                if kind in actions:
                    body = self.unpacked(raw[end + 1 :], raw[1] if at == 2 else None)
                    actions[kind](kind, Bytes(body))

    def unpacked(self, body, slot):
        if slot:
            return self.shared[self.bound[slot]].unpack(body)
        return body if slot is None else zlib.decompress(body, -15)

    def bind(self, kind, body):
        slot = body.take(1)[0]
        self.bound[slot] = body.take(16)

    def payload(self, kind, body):
        if not self.total:
            self.total, self.sources[0] = 1, [(), 0, self.slots(b"\0")]
        self.sources[0][1] += 1
        self.deliver(0, [(0, body.data)])

    def key(self, body, wide, chain):
        assert body.take(1) == b"\x01"
        assert zlib.crc32(body.data[:-4]) == int.from_bytes(body.data[-4:], "big")
        position, configuration = (body.varint(), body.varint()), body.varint()
        if position < (self.incarnation, self.sequence):
            return
        settings, scales = (configuration, body.take(8), body.blob()), body.blob()
        assert settings[1] == self.fingerprint
        if self.lost or (*position, settings) != (self.incarnation, self.sequence, self.settings):
            self.sources = {}
        self.incarnation, self.sequence = position[0], position[1] + 1
        self.chain, self.wide, self.settings, self.lost, self.bound = chain, wide, settings, False, {}
        self.total, alias, self.last = body.varint(), body.varint(), 0
        self.start(Bytes(settings[2]), scales)
        while body.at < len(body.data) - 4:
            source = [tuple(json.loads(body.blob())), body.varint(), self.slots(body.blob())]
            if alias in self.sources:
                self.suppress(alias, source[1] - self.sources[alias][1])
            else:
                self.sources[alias] = source
                if self.delivered.get((self.incarnation, source[0]), 0) < source[1] and not self.opaque:
                    self.deliver(alias, virtual=True)
            alias += 1

    def start(self, rules, scales):
        halves = [((b + 1) // 2, (b + 1) % 2) for b in scales]
        levels = [(1 << n) // 2 + ((h << n) // 4 if n > 1 else 0) if n else 0 for n, h in halves]
        self.scales = dict(zip(["alias", "skip", *range(len(self.wire))], levels, strict=True))
        self.tables = {i: [] for i, p in enumerate(self.wire) if p["lane"] == "text"}
        self.text_counts = dict.fromkeys(self.tables, 0)
        flags, _min_interval, self.tolerances = rules.varint(), rules.varint(), {}
        assert flags < 8
        for i, p in enumerate(self.wire):
            if p["lane"] == "tick":
                self.tolerances[i] = rules.varint(), rules.varint(), rules.varint()
                _upstream = rules.varint() if flags & 4 else 0
            elif p["lane"] == "float":
                rules.take(16 if flags & 4 else 8)
        assert not rules.more()

    def slots(self, columns):
        columns = Bytes(columns)
        return [Slot(p, columns) for p in self.wire]

    def deliver(self, alias, exacts=(), virtual=False):
        dimensions, ordinal, slots = self.sources[alias]
        values = dict(zip(self.dimensions, dimensions, strict=True))
        values.update((p["name"], shown(p, slot.x1)) for p, slot in zip(self.wire, slots, strict=True))
        for i, exact in exacts:
            ticks = self.wire[i]["lane"] == "tick" and isinstance(exact, int)
            values[self.wire[i]["name"]] = shown(self.wire[i], exact) if ticks else exact
        self.delivered[self.incarnation, dimensions] = ordinal
        self.out.append(("event", values, list(dimensions), ordinal, virtual))

    def advance(self, alias, sent=()):
        source = self.sources[alias]
        source[1] = n = source[1] + 1
        for i, slot in enumerate(source[2]):
            if i not in sent and slot.x1 is not None and (slot.mode & 15 or slot.season):
                slot.observe(slot.expected(n), n)

    def suppress(self, alias, skip):
        for _ in range(skip if alias in self.sources else 0):
            self.advance(alias)
            self.deliver(alias, virtual=True)

    def data(self, kind, body):
        bits, alias, exacts = Bits(body.data), 0, {}
        if self.total > 1:
            alias = self.last = self.last + 1 + unzigzag(bits.code(self.scales, "alias"))
        skip, mask = bits.code(self.scales, "skip"), bits.mask(len(self.wire))
        exceptions = bits.mask(len(self.wire)) if kind == 2 else set()
        codes = {i: self.code(bits, i) for i in sorted(mask - exceptions)}
        body.at = (bits.at + 7) // 8
        for i in sorted(mask):
            if i in exceptions:
                exacts[i] = body.exact()
            elif i in self.tables:
                codes[i] = self.text(body, i, codes[i])
        if alias in self.sources:
            self.suppress(alias, skip)
            self.apply(self.sources[alias][2], self.sources[alias][1] + 1, codes, exacts)
            self.advance(alias, mask)
            self.deliver(alias, exacts.items())

    def code(self, bits, i):
        if self.wire[i]["lane"] == "float":
            zeros, width = bits.take(6), bits.take(6) + 1
            return bits.take(width) << zeros
        return 1 if self.wire[i]["lane"] == "flag" else bits.code(self.scales, i)

    def text(self, body, i, code):
        if code:
            return [*self.wire[i].get("members", ()), *self.tables[i]][code - 1]
        size, position = body.varint(), self.text_counts[i] % 256
        text = (zlib.decompress(body.take(size // 2), -15) if size % 2 else body.take(size // 2)).decode()
        if len(text) <= 1024:
            self.tables[i][position : position + 1] = [text]
            self.text_counts[i] += 1
        return text

    def apply(self, slots, n, codes, exacts):
        for i, code in codes.items():
            if i in self.tolerances:
                tolerance, half, _band = self.tolerances[i]
                half = 0 if slots[i].mode & FINE else half
                residual = tolerance + 1 + half + code // 2 * (2 * half + 1)
                slots[i].observe(slots[i].expected(n) + (-residual if code % 2 else residual), n)
            else:
                slots[i].x1 = code if i in self.tables else slots[i].x1 ^ code
        for i, exact in exacts.items():
            slots[i].observe_exact(self.wire[i], exact, n)

    def introduce(self, kind, body):
        alias, self.total, exacts = self.total, self.total + 1, []
        self.sources[alias] = [tuple(json.loads(body.blob())), body.varint(), self.slots(body.blob())]
        while body.more():
            exacts.append((body.varint(), body.exact()))
        self.deliver(alias, exacts)

    def switch(self, kind, body):
        """Apply a switch frame. An audit frame begins in the same way and changes nothing."""
        alias, skip = body.varint(), body.varint()
        self.suppress(alias, skip)
        while kind == 6 and alias in self.sources and body.more():
            slot = self.sources[alias][2][self.slotted[body.varint()]]
            slot.mode, slot.coefficients, slot.offset, slot.trend = body.varint(), body.varint(), 0, body.signed()
            slot.x2 = None if slot.x1 is None else clamp(slot.x1 - (slot.trend >> 8), M)

    def beat(self, kind, body):
        sequence, watermark, alias = body.varint(), body.signed(), 0
        self.lost = sequence != self.sequence - 1
        while body.more() and not self.lost:
            first, count, skip = alias + body.varint(), body.varint(), body.varint()
            alias = first + count
            for source in range(first, alias):
                self.suppress(source, skip)
        if not self.lost and len(self.sources) == self.total:
            self.out.append(("watermark", watermark / 1000))
