#!/usr/bin/env bash
# The tests that need a GPU, on a machine that has one: a line each, and the whole output in a log.
#
#   tests/gpu.sh [FOLDER]           runs them; FOLDER holds the programs: a build folder, or what pack made
#   tests/gpu.sh pack BUILD FOLDER  copies the programs of a build, the libraries that they need and this
#                                   script into FOLDER, to be taken to a machine with a GPU and run there
#
# Exit code: 0 all passed, 1 at least one failed, 77 there is no GPU.
set -u

programs=(test_conformance_gpu test_cuda_words)
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

die() {
  echo "gpu.sh: $*" >&2
  exit 1
}

pack() {
  local build=$1 folder=$2 program library
  mkdir -p "$folder/lib" || exit 1
  for program in "${programs[@]}"; do
    [ -x "$build/$program" ] ||
      die "$build/$program isn't built (cmake --build $build --target ${programs[*]})"
    cp "$build/$program" "$folder/" || exit 1
    # The C library and the driver's libraries are the other machine's own.
    ldd "$build/$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' | while read -r library; do
      case ${library##*/} in
        libc.so* | libm.so* | libdl.so* | librt.so* | libpthread.so* | ld-linux* | libcuda.so*) ;;
        *) cp -L "$library" "$folder/lib/" || exit 1 ;;
      esac
    done || exit 1
  done
  cp "$here/gpu.sh" "$here/cases/attention.json" "$folder/" || exit 1
  echo "$folder: $(du -sh "$folder" | cut -f1), to be run with $folder/gpu.sh on a machine with a GPU"
}

failed=0

# step NAME PATTERN COMMAND… passes if the command exits with 0 and its output has PATTERN: a tool that
# didn't look at anything hasn't found anything either.
step() {
  local name=$1 pattern=$2 log=$logs/${1//[^A-Za-z0-9]/_}.log start=$SECONDS code verdict=ok
  shift 2
  "$@" >"$log" 2>&1
  code=$?
  if [ $code = 77 ] && [ -z "$ran" ]; then
    tail -n 1 "$log"
    exit 77
  fi
  ran=yes
  if [ $code != 0 ] || ! grep -qE "$pattern" "$log"; then
    verdict=FAIL
    failed=1
  fi
  local summary
  summary=$(grep -E "$pattern|test cases:|ERROR SUMMARY|RACECHECK SUMMARY" "$log" | tail -n 1)
  printf '%-4s  %-22s %4d s  %s\n' "$verdict" "$name" $((SECONDS - start)) \
    "${summary:-exit code $code, $(tail -n 1 "$log")}"
  [ $verdict = ok ] || echo "      $log"
}

run_all() {
  local folder=$1 tool passed='All tests passed \([1-9]'
  [ -x "$folder/test_conformance_gpu" ] || die "$folder has no test_conformance_gpu"
  [ -d "$folder/lib" ] && export LD_LIBRARY_PATH=$folder/lib${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  [ -f "$folder/attention.json" ] && export FA_CASES=$folder/attention.json
  logs=${FA_LOGS:-$(mktemp -d)}
  mkdir -p "$logs" || exit 1
  ran=

  # Catch's exit code is the number of failed checks: never near 77.
  step "suite on the GPU" "$passed" "$folder/test_conformance_gpu" --abortx 10
  step "CUDA's words" "$passed" "$folder/test_cuda_words" --abortx 10
  command -v compute-sanitizer >/dev/null || PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
  # Not the whole suite: racecheck slows a kernel down by hundreds.
  for tool in memcheck racecheck synccheck initcheck; do
    local more=()
    [ $tool = memcheck ] && more=(--leak-check full)
    [ $tool = racecheck ] && more=(--racecheck-report all)
    step "$tool, ragged" "ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards" \
      compute-sanitizer --tool $tool "${more[@]}" --error-exitcode 99 \
      "$folder/test_conformance_gpu" "[ragged]" --abortx 10
  done
  exit $failed
}

case ${1-} in
  pack)
    [ $# = 3 ] || die "pack takes a build folder and a folder to make"
    pack "$2" "$3"
    ;;
  -*) sed -n '2,10s/^# \{0,1\}//p' "${BASH_SOURCE[0]}" ;;
  *)
    folder=${1:-$here}
    [ -n "${1-}" ] || [ -x "$here/test_conformance_gpu" ] || folder=$here/../build/release
    [ -d "$folder" ] || die "no folder $folder"
    run_all "$(cd "$folder" && pwd)"
    ;;
esac
