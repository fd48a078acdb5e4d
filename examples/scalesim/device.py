"""SCALE-Sim 3.0.0 as an exec device (docs/exec.md): a second opinion on the cycles of an array.

A program's folds (mx.mm: m rows against k x n weights, weight-stationary) are layers of
SCALE-Sim's, one for each shape, timed by it on an array of the target's size; the program takes
their sum, as on a machine whose folds never overlap and whose memory takes no time. Of other
machines, and of vector or output-stationary instructions, SCALE-Sim's folds say nothing: they are
refused.
"""

import collections
import csv
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "exec"))
from lw_exec import Refused, serve  # noqa: E402

CONFIG = """[general]
run_name = folds
[architecture_presets]
ArrayHeight = {rows}
ArrayWidth = {columns}
IfmapSramSzkB = 16384
FilterSramSzkB = 16384
OfmapSramSzkB = 16384
IfmapOffset = 0
FilterOffset = 10000000
OfmapOffset = 20000000
Bandwidth = 10
Dataflow = ws
MemoryBanks = 1
ReadRequestBuffer = 32
WriteRequestBuffer = 32
[layout]
IfmapCustomLayout = False
IfmapSRAMBankBandwidth = 10
IfmapSRAMBankNum = 10
IfmapSRAMBankPort = 2
FilterCustomLayout = False
FilterSRAMBankBandwidth = 10
FilterSRAMBankNum = 10
FilterSRAMBankPort = 2
[sparsity]
SparsitySupport = false
SparseRep = ellpack_block
OptimizedMapping = false
BlockSize = 8
RandomNumberGeneratorSeed = 40
[run_presets]
InterfaceBandwidth = CALC
UseRamulatorTrace = False
"""

# Ops, and where fields lie in the body of a word (src/npu/isa/isa.h, encode.h).
MX_MM, EXTENSION = 9, 63
FREE = {1, 2, 8, 32, 33, 34, EXTENSION}     # ld, st, mx.ldw (folds load their weights), sync, halt

known = {}                          # (rows, columns, m, k, n) -> cycles


def bits(word, first, count):
    """Of a word's body."""
    return int.from_bytes(word[8:], "little") >> first & (1 << count) - 1


def folds(program):
    """How often the program has each shape (m, k, n)."""
    count = collections.Counter()
    words = program.words
    for i, word in enumerate(words):
        op = word[0] & 63
        if op == MX_MM:
            m, k, n = bits(word, 24, 16), bits(word, 92, 8), bits(word, 100, 8)
            extended = i + 1 < len(words) and words[i + 1][0] & 63 == EXTENSION
            count[m * (bits(words[i + 1], 0, 8) if extended else 1), k, n] += 1
        elif op not in FREE:
            raise Refused("op %d: SCALE-Sim knows weight-stationary folds alone" % op)
    return count


def ask_scalesim(rows, columns, shapes):
    with tempfile.TemporaryDirectory() as folder:
        def put(name, text):
            path = os.path.join(folder, name)
            with open(path, "w") as file:
                file.write(text)
            return path
        topology = put("folds.csv", "Layer, M, N, K,\n" + "".join(
            "f%d, %d, %d, %d,\n" % (i, m, n, k) for i, (m, k, n) in enumerate(shapes)))
        config = put("array.cfg", CONFIG.format(rows=rows, columns=columns))
        subprocess.run([sys.executable, "-m", "scalesim.scale", "-c", config, "-t", topology,
                        "-l", topology, "-p", folder, "-i", "gemm"],
                       check=True, stdout=subprocess.DEVNULL, cwd=folder)
        with open(os.path.join(folder, "folds", "COMPUTE_REPORT.csv")) as file:
            table = [{name.strip(): cell for name, cell in row.items() if name}
                     for row in csv.DictReader(file)]
    # It prints the index of the last cycle, which is one less than their number.
    return [1 + int(float(row["Total Cycles"])) for row in table]


def cycles(program):
    array, dram = program.config["mx"], program.config["dram"]
    if array["mode"] != "serial" or dram["kind"] != "ideal":
        raise Refused("folds that overlap (mx.mode %s) or memory that takes time (dram.kind %s): "
                      "SCALE-Sim's array has neither" % (array["mode"], dram["kind"]))
    count = folds(program)
    size = (array["R"], array["C"])
    new = [shape for shape in count if size + shape not in known]
    if new:
        for shape, taken in zip(new, ask_scalesim(*size, new)):
            known[size + shape] = taken
    total = sum(times * known[size + shape] for shape, times in count.items())
    if total == 0:
        raise Refused("the program has no fold")
    return float(total)


serve("scalesim", "3.0.0", cycles)
