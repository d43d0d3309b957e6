#!/usr/bin/env bash
# What to do on a machine with a GPU; each part takes less than 9 minutes. docs/cuda.md says more.
# usage: gpu/run.sh A|B|C|D [--out FOLDER] [--program FILE] [--tiny]
#   A  build for this GPU; every op case with fresh random data; counters of ncu, where it is, beside the simulator's
#   B  compute-sanitizer, where it is; 1,000 replays of recorded steps, all outputs of the same bits
#   C  ceilings; times of products and attention as shares of them; products of floats beside cuBLAS; tokens a second of
#      generated models
#   D  llama.cpp on the same generated models, alternating: LLMINFER_PEER_BIN is the folder of its llama-bench
# Results: FOLDER/A.json ... and what they are made of; FOLDER is $OUT, or gpu-results. --program: a gpu_check that is
# built already; --tiny: the smallest shapes (both for the simulator, where parts that need more are left out).
. "$(dirname "$0")/../scripts/lib.sh"
usage() { sed -n '3,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }

part=${1:-}
case $part in A|B|C|D) shift ;; *) usage ;; esac
out=${OUT:-gpu-results} program= tiny=()
while [ $# -gt 0 ]; do
  case $1 in
    --out) [ $# -ge 2 ] || usage; out=$2; shift 2 ;;
    --program) [ $# -ge 2 ] || usage; program=$2; shift 2 ;;
    --tiny) tiny=(--tiny); shift ;;
    *) usage ;;
  esac
done
build=$root/build/gpu
started=$SECONDS
left() { echo $((510 - (SECONDS - started) > 20 ? 510 - (SECONDS - started) : 20)); }  # seconds until 8.5 minutes

need_gpu() {
  command -v nvidia-smi >/dev/null || die 'no GPU here: there is no nvidia-smi, so no driver'
  local gpus
  gpus=$(nvidia-smi -L 2>&1) || true
  grep -q '^GPU ' <<<"$gpus" || die "no GPU here: ${gpus%%$'\n'*}"
}
build_programs() {  # target ...
  local capability nvcc
  nvcc=$("$root/scripts/get-nvcc")
  capability=$(nvidia-smi --query-gpu=compute_cap --format=csv,noheader)
  capability=${capability%%$'\n'*}
  capability=${capability//./}
  cmake -S "$root" -B "$build" -G Ninja -DCMAKE_BUILD_TYPE=Release -DLLMINFER_CUDA=ON -DLLMINFER_NVCC="$nvcc" \
    -DLLMINFER_CUDA_ARCHITECTURES="$capability" >"$out/configure.log" || { cat "$out/configure.log"; return 1; }
  cmake --build "$build" -j "$(nproc)" --target "$@" >"$out/build.log" || { tail -n 40 "$out/build.log"; return 1; }
}
# One part of the results; a failing check is a result too, and the others still run.
check() {  # name command option ...
  local name=$1
  shift
  say "--- $name"
  timeout "$(left)" "$program" "$@" "${tiny[@]}" --out "$out/$part-$name.json" && return
  [ -s "$out/$part-$name.json" ] ||
    printf '{"ok": false, "result": {}, "error": "%s failed or ran out of time"}\n' "$name" >"$out/$part-$name.json"
}
model() {  # shape
  mkdir -p "$models"
  local file=$models/random-$1.gguf
  [ -f "$file" ] || python3 "$root/gpu/random_model.py" "$1" "$file"
  echo "$file"
}

counters() {
  command -v ncu >/dev/null || { say 'no ncu: counters are not compared'; return; }
  build_programs gpu_check_simulated
  local metrics what=(products --tiny --filter Q4 --rows 1,8 --samples 1)
  metrics=$(python3 -c "import sys; sys.path.insert(0, '$root/gpu'); import report; print(','.join(report.METRICS.values()))")
  timeout "$(left)" ncu --csv --page raw --print-units base --clock-control none --metrics "$metrics" "$program" \
    "${what[@]}" --out /dev/null >"$out/ncu.csv" || { say 'ncu failed'; return; }
  # Launches in clusters are others than without.
  grep -Eq '"isa": "sm_(9|10|11)[0-9]"' "$out/A-info.json" && what+=(--clusters)
  "$build/gpu/gpu_check_simulated" "${what[@]}" --counts --out "$out/counts.json"
  python3 "$root/gpu/report.py" counters "$out/ncu.csv" "$out/counts.json" >"$out/A-counters.json" ||
    rm -f "$out/A-counters.json"
}
part_A() {
  local seed=${SEED:-$(date +%s)}
  check info info
  if [ ${#tiny[@]} -gt 0 ]; then
    check correct correct --seed "$seed" --filter "${FILTER:-rms_norm}"
  else
    check correct correct --seed "$seed" --slow
    counters
  fi
}
sanitizer() {  # tool
  local summary
  timeout 100 compute-sanitizer --tool "$1" "$program" correct --seed 1 --filter "${FILTER:-q4_0}" --out /dev/null \
    >"$out/$1.log" 2>&1 || true
  summary=$(grep -E 'ERROR SUMMARY|RACECHECK SUMMARY' "$out/$1.log" | tail -n 1 | sed 's/=* //')
  python3 -c 'import json, sys; print(json.dumps({"ok": "0 errors" in sys.argv[2] or "0 hazards" in sys.argv[2],
    "result": {"tool": sys.argv[1], "summary": sys.argv[2] or "it did not finish"}}))' "$1" "$summary" \
    >"$out/B-sanitizer-$1.json"
}
part_B() {
  if [ ${#tiny[@]} -eq 0 ] && command -v compute-sanitizer >/dev/null; then
    local tool
    for tool in memcheck racecheck synccheck initcheck; do sanitizer "$tool"; done
  else
    say 'compute-sanitizer is not run'
  fi
  if [ ${#tiny[@]} -gt 0 ]; then
    check replay replay --count 4 --filter "${FILTER:-f32}"
  else
    check replay replay --count 1000
  fi
}
part_C() {
  local seconds=2 samples=30 shape
  if [ ${#tiny[@]} -gt 0 ]; then seconds=0 samples=1; fi
  check ceilings ceilings --seconds "$seconds"
  check products products --ceilings "$out/C-ceilings.json" --samples "$samples" --filter "${FILTER:-}"
  check dense dense --samples "$samples"
  check attention attention --ceilings "$out/C-ceilings.json" --samples "$samples"
  [ ${#tiny[@]} -eq 0 ] || return 0
  for shape in llama-3.2-1b llama-3.1-8b; do
    say "--- tokens/s of $shape"
    timeout "$(left)" "$build/examples/llminfer-bench" "$(model "$shape")" --device "$build/cuda/libllminfer_cuda.so" \
      --rounds 3 --batch 1,8,32 --json >"$out/bench-$shape.json" || { say "$shape did not finish"; continue; }
    printf '{"ok": true, "result": %s}\n' "$(cat "$out/bench-$shape.json")" >"$out/C-bench-$shape.json"
  done
}
part_D() {
  local peer=${LLMINFER_PEER_BIN:-}
  [ -x "$peer/llama-bench" ] || die 'part D: LLMINFER_PEER_BIN must be a folder with llama-bench, built with CUDA'
  rm -f "$out/peers.json"
  timeout "$(left)" python3 "$root/bench/compare_peers.py" --ours "$build/examples/llminfer-bench" \
    --device "$build/cuda/libllminfer_cuda.so" --peer "llama.cpp=$peer" --rounds 3 --json "$out/peers.json" \
    "$(model llama-3.2-1b)" "$(model llama-3.1-8b)" || say 'the comparison did not finish'
  if [ -f "$out/peers.json" ]; then
    printf '{"ok": true, "result": %s}\n' "$(cat "$out/peers.json")" >"$out/D-peers.json"
  fi
}

if [ -z "$program" ]; then
  need_gpu
  mkdir -p "$out"
  case $part in
    A|B) build_programs gpu_check ;;
    C) build_programs gpu_check llminfer_cuda llminfer-bench ;;
    D) build_programs llminfer_cuda llminfer-bench ;;
  esac
  program=$build/gpu/gpu_check
fi
[ -x "$program" ] || die "no program $program"
[ "$part" != D ] || [ ${#tiny[@]} -eq 0 ] || die 'part D has no tiny form: it is a comparison on a GPU'
mkdir -p "$out"
rm -f "$out/$part"-*.json
"part_$part"
python3 "$root/gpu/report.py" "$out" "$part"
