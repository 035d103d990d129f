#!/usr/bin/env bash
# Measures the reference results of results/h200 into a folder, by the names they have there, and
# prints how long each command took. Needs a CUDA device; run it from the checkout:
#
#     benchmarks/record.sh FOLDER
set -euo pipefail
folder=${1:?usage: benchmarks/record.sh FOLDER}
mkdir -p "$folder"

record() {
  local name=$1 began=$SECONDS
  shift
  python3 -m cudabench "$@" --quiet \
    --csv "$folder/$name-samples.csv" --json "$folder/$name.json" > "$folder/$name.txt"
  echo "$name: $((SECONDS - began)) s"
}

record run-n1048576 run --l2 both
record run-n1048576-again run --l2 both
record run-n16777216 run --n 2^24 --l2 both
record run-n268435456 run --n 2^28 --l2 both
record run-default-stream run --operator add2-default-stream
record sync-modes-n1048576 sync-modes --n 2^20
record sync-modes-n16777216 sync-modes
record sync-modes-n268435456 sync-modes --n 2^28
record methods-n1048576 methods --l2 both
record methods-n16777216 methods --n 2^24
record methods-default-stream methods --operator add2-default-stream
python3 -m benchmarks.accuracy --out "$folder/accuracy.csv" > "$folder/accuracy.txt"
tail -n 9 "$folder/accuracy.txt"
