"""A device's side of the protocol of docs/exec.md, for simulators in Python: no package is needed.

    from lw_exec import Refused, serve

    def cycles(program):            # a Program; raises Refused for what the machine does not take
        return 1000.0 * len(program.words)

    serve("my_simulator", "1.0", cycles)
"""

import json
import os
import struct
import sys

VERSION = 1
HEADER = struct.Struct("<4sIQ")     # "LWEX", bytes of the head, bytes of the body
MOST_HEAD, MOST_BODY = 1 << 22, 1 << 36


class Refused(Exception):
    """What the machine does not take; its text is shown."""


class Program:
    """A module (src/npu/module.h): the machine, where tensors lie, and the words of the program."""

    def __init__(self, data):
        self._data, self._at = data, 0
        if self._take(8) != b"LWNPUM\1\0":
            raise Refused("no module of a program for the NPU")
        self.dram_bytes = self._number()
        self.workspace = (self._number(), self._number())
        self.arguments = [(self._number(), self._number(), self._number() == 1)
                          for _ in range(self._number())]
        self.config = json.loads(self._take(self._number()))
        self.image = self._take(self._number())
        if self._at != len(data) or self.image[:5] != b"LWNPU":
            raise Refused("no module of a program for the NPU")
        self.words = [self.image[i:i + 32] for i in range(16, len(self.image), 32)]

    def _take(self, count):
        part = self._data[self._at:self._at + count]
        if len(part) != count:
            raise Refused("a module that is cut short")
        self._at += count
        return part

    def _number(self):
        return struct.unpack("<Q", self._take(8))[0]


def _read(count):
    data = b""
    while len(data) < count:
        part = sys.stdin.buffer.read(count - len(data))
        if not part:
            break
        data += part
    return data


def _answer(out, head):
    text = json.dumps(head).encode()
    out.write(HEADER.pack(b"LWEX", len(text), 0) + text)
    out.flush()


def _result(head, body, cycles):
    if head["type"] == "hello":
        if head["version"] != VERSION:
            raise Refused("version %s; this device speaks %d" % (head["version"], VERSION))
        if head["architecture"] != "npu":
            raise Refused("programs for npu are run here, not for %s" % head["architecture"])
        return None
    if head["type"] != "job":
        raise Refused("no request is called %s" % head["type"])
    if "outputs" in head["want"]:
        raise Refused("this device computes no outputs")
    if head["program"]["format"] != "npu_module":
        raise Refused("programs of the format npu_module are run here")
    return {"type": "result", "cycles": cycles(Program(body))}


def serve(name, release, cycles):
    """Answers until the input ends. What is printed meanwhile goes to the standard error."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)                   # no library's words may stand between two frames
    greeting = {"type": "hello", "version": VERSION, "name": name, "release": release,
                "outputs": False, "exact": True}
    while True:
        header = _read(HEADER.size)
        if not header:
            return
        if len(header) < HEADER.size:
            sys.exit("the input ends within a frame")
        magic, head_bytes, body_bytes = HEADER.unpack(header)
        if magic != b"LWEX" or head_bytes > MOST_HEAD or body_bytes > MOST_BODY:
            sys.exit("what comes is no frame")
        head, body = _read(head_bytes), _read(body_bytes)
        answer = {}
        try:
            request = json.loads(head)
            answer["id"] = request["id"]
            answer.update(_result(request, body, cycles) or greeting)
        except Refused as why:
            answer.update(type="error", code="refused", message=str(why))
        except (ValueError, KeyError, TypeError) as why:
            answer.update(type="error", code="refused", message="a broken request: %r" % why)
        answer.setdefault("id", 0)
        _answer(out, answer)
