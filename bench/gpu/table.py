#!/usr/bin/env python3
"""Makes of what run_peers left in a folder one JSON file and one Markdown file.

    bench/gpu/table.py FOLDER -o bench/gpu/results/2026-11-26_h100
"""
import argparse
import json
import os

TITLES = {"gemm": "Matrix products", "thin": "Thin matrix products", "dense": "Dense layers",
          "rows": "Softmax and norms", "reduce": "Sums", "transpose": "Transposes", "attention": "Attention",
          "conv": "Convolutions of ResNet-50, NHWC", "depthwise": "Depthwise convolutions, NHWC"}
STATE = ("sm_mhz", "sm_mhz_low", "watt", "celsius", "throttle", "rounds")


def load(folder):
    """What the log holds, a row per row and regime, with its contenders."""
    found = {"environment": {}, "sustained": {}, "constants": {}, "rows": []}
    path = os.path.join(folder, "calibrate.json")
    if os.path.exists(path) and os.path.getsize(path):
        with open(path, encoding="utf-8") as file:
            found["constants"] = json.load(file)["constants"]
    rows = {}
    with open(os.path.join(folder, "peers.jsonl"), encoding="utf-8") as file:
        for line in map(json.loads, file):
            found.update({key: line[key] for key in ("environment", "sustained") if key in line})
            if "peer" not in line:
                continue
            group, name = line["row"].split(": ", 1)
            row = rows.setdefault((line["row"], line["regime"]),
                                  {"group": group, "name": name, "regime": line["regime"], "peers": {}})
            row.update({key: line[key] for key in STATE if key in line})
            row["peers"][line["peer"]] = {key: value for key, value in line.items() if key not in
                                          ("row", "group", "regime", "peer", "samples", *STATE)}
    found["rows"] = list(rows.values())
    return found


def cell(peer, fastest):
    if peer is None:
        return ""
    if "us" not in peer:
        return "no"
    us = peer["us"]
    words = f"{us:.0f}" if us >= 1000 else f"{us:.3g}"
    words = f"**{words}**" if fastest else words
    if "tflops" in peer and peer["of_peak"] >= 0.02:
        words += f" · {peer['tflops']:.0f} · {100 * peer['of_peak']:.0f} %"
    if "of_copy" in peer:
        words += f" · {100 * peer['of_copy']:.0f} % c"
    spread = (peer["q3"] - peer["q1"]) / us
    return words + (f" ±{50 * spread:.0f} %" if spread >= 0.03 else "")


def markdown(found):
    card = found["environment"]
    lines = [f"# {card['card']}", "",
             f"Driver {card['nvidia_smi']['driver_version']}, PyTorch {card['torch']}, cuBLASLt "
             f"{card['cublaslt']}, cuDNN {card['cudnn']}, Triton {card['triton']}.", "",
             "Cells: time in us (bold: the fastest) · TFLOP/s · share of the data-sheet peak, or · share of a "
             "copy that moves the row's bytes (c); ± half the distance of the quartiles where it is 1.5 % or "
             "more.",
             "MHz and W: medians while the row ran. [README](../README.md) says how."]
    for name, s in found["sustained"].items():
        lines += ["", f"bf16 8192^3 for 3 s on {name}: {s['tflops_first']:.0f} TFLOP/s in the first 0.1 s, "
                  f"{s['tflops']:.0f} after 1 s ({s['sm_mhz']:.0f} MHz, {s['watt']} W)."]
    for group, title in TITLES.items():
        rows = [row for row in found["rows"] if row["group"] == group]
        if not rows:
            continue
        names = list(dict.fromkeys(name for row in rows for name in row["peers"]))
        lines += ["", f"## {title}", "", f"| | | {' | '.join(names)} | MHz | W |",
                  "|---|---|" + "---|" * (len(names) + 2)]
        for row in rows:
            peers = row["peers"]
            least = min((p["us"] for n, p in peers.items() if "us" in p and n != "copy"), default=0)
            cells = [cell(peers.get(n), n != "copy" and peers.get(n, {}).get("us") == least) for n in names]
            lines.append(f"| {row['name']} | {row['regime']} | {' | '.join(cells)} | "
                         f"{row.get('sm_mhz', 0):.0f} | {row.get('watt', 0):.0f} |")
    lines += ["", "## Constants", "", "| | value | quartiles | unit |", "|---|---|---|---|"]
    lines += [f"| {name} | {c['value']:g} | {c['q1']:g} .. {c['q3']:g} | {c['unit']} |"
              for name, c in found["constants"].items()]
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("-o", "--out", required=True, help="without the extension")
    args = parser.parse_args()
    found = load(args.folder)
    with open(args.out + ".json", "w", encoding="utf-8") as file:   # a row or constant a line
        constants = (f"{json.dumps(k)}: {json.dumps(v)}" for k, v in found["constants"].items())
        parts = [f'"environment": {json.dumps(found["environment"])}',
                 f'"sustained": {json.dumps(found["sustained"])}',
                 '"constants": {\n' + ",\n".join(constants) + "}",
                 '"rows": [\n' + ",\n".join(map(json.dumps, found["rows"])) + "]"]
        file.write("{" + ",\n".join(parts) + "}\n")
    with open(args.out + ".md", "w", encoding="utf-8") as file:
        file.write(markdown(found))


if __name__ == "__main__":
    main()
