"""What scale.sh measured. Verbs: run (one line of JSON from a run's folder and log), overlap (collectives in a dumped schedule), table."""

import glob
import json
import os
import re
import sys


def run(folder, log, name, size, devices, batch):
    points = []
    path = os.path.join(folder, "metrics.jsonl")
    if os.path.exists(path):
        points = [json.loads(line) for line in open(path)]
    points = [p for p in points if "loss" in p]
    late = sorted(points[len(points) // 3:], key=lambda p: p["samples_per_second"]) or [{}]
    middle = late[len(late) // 2]
    text = open(log, errors="replace").read()
    memory = re.findall(r'bytes="?([\d.]+) GB on each device: ([\d.]+) weights', text)
    return {"program": "pinch", "name": name, "size": size, "devices": int(devices), "batch": int(batch), "steps": len(points),
            "samples_per_s": middle.get("samples_per_second"), "mfu": middle.get("mfu"), "loader_share": middle.get("loader_share", 0),
            "memory_gb": float(memory[-1][0]) if memory else None, "state_gb": float(memory[-1][1]) if memory else None, "losses": [p["loss"] for p in points[:20]]}


def overlap(folder, size):
    """Counts collectives of the scheduled program that have matrix products between their start and their end."""
    files = sorted(glob.glob(os.path.join(folder, "*after_optimizations.txt")), key=os.path.getsize)
    if not files:
        return {"program": "overlap", "size": size, "error": "no schedule was dumped"}
    begun, beside, total = {}, 0, 0
    for n, line in enumerate(open(files[-1], errors="replace")):
        if m := re.search(r"%((?:all-reduce|reduce-scatter|all-gather)-start[\w.]*) =", line):
            begun[m[1]] = [n, 0]
        elif re.search(r"= .*(__cublas|custom-call|fusion)\(", line) or "gemm" in line:
            for b in begun.values():
                b[1] += 1
        if m := re.search(r"-done\(.*%((?:all-reduce|reduce-scatter|all-gather)-start[\w.]*)", line):
            if m[1] in begun:
                total += 1
                beside += begun.pop(m[1])[1] > 0
    return {"program": "overlap", "size": size, "collectives": total, "with_work_beside_them": beside}


def table(path):
    lines = [json.loads(line) for line in open(path) if line.startswith("{")]
    runs = {r["name"]: r for r in lines if r["program"] == "pinch"}
    plans = {(r["size"], r["gpus"]): r for r in lines if r["program"] == "plan"}
    torch = {(r["size"], r["devices"]): r for r in lines if r["program"] == "torch"}
    print("| run | devices | samples/s | of ideal | MFU | loader share | GB a device (state) | plan's samples/s | against DDP |\n|---|---|---|---|---|---|---|---|---|")
    bad = 0
    for name, r in runs.items():
        if not r["samples_per_s"]:
            print(f"| {name} | {r['devices']} | did not run | | | | | | |")
            bad += 1
            continue
        one = runs.get(f"{r['size']}-1")
        ideal = f"{r['samples_per_s'] / r['devices'] / one['samples_per_s']:.3f}" if one and one["samples_per_s"] else ""
        plan = plans.get((r["size"], r["devices"]), {}).get("samples_per_s")
        ddp = torch.get((r["size"], r["devices"]))
        print(f"| {name} | {r['devices']} | {r['samples_per_s']:.1f} | {ideal} | {100 * (r['mfu'] or 0):.1f} % | {100 * r['loader_share']:.1f} % | {r['memory_gb']} ({r['state_gb']}) | "
              f"{'' if plan is None else f'{plan:.0f}'} | {'' if ddp is None else f'''{r['samples_per_s'] / ddp['samples_per_s']:.2f}'''} |")
    for size in {r["size"] for r in runs.values()}:
        same = [r for n, r in runs.items() if n.startswith(size + "-same-")]
        if len(same) == 2:
            a, b = (r["losses"] for r in same)
            worst = max((abs(x - y) / max(abs(x), 1) for x, y in zip(a, b)), default=float("inf"))
            verdict = "as wanted" if len(a) == len(b) == 20 and worst <= 1e-3 else "NOT as wanted"
            bad += verdict != "as wanted"
            print(f"\n{size}: one global batch on {same[0]['devices']} and {same[1]['devices']} devices, {len(b)} steps: losses within {worst:.1e}, {verdict} (1e-3, 20 steps)")
    if r := runs.get("killed"):
        print(f"\nkilled and resumed: {r['steps']} steps in the log")
    sys.exit(bad > 0)


if __name__ == "__main__":
    verb, args = sys.argv[1], sys.argv[2:]
    out = {"run": run, "overlap": overlap, "table": table}[verb](*args)
    if out is not None:
        print(json.dumps(out))
