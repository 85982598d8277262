#!/usr/bin/env bash
# Do all kernels of a file stay in registers? By the compiler's own report.
#
#   tests/spills/spills.sh NVCC SOURCE EXCEPT CC [nvcc's flags …]
#
# EXCEPT: a regular expression, for the names of kernels that may spill up to 40 bytes; empty: none may.
# CC: compute capabilities, 80;90 say.
# Exit code: 0 none spills, 1 at least one does, a line each, 77 there is no NVCC.
set -u

nvcc=$1 source=$2 except=$3 ccs=${4//;/ }
shift 4
if ! command -v "$nvcc" >/dev/null; then
  echo "no ${nvcc:-CUDA in this build}: what the compiler says of $(basename "$source") is unknown"
  exit 77
fi
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

for cc in $ccs; do
  "$nvcc" -arch=sm_$cc -cubin -Xptxas -v -o "$folder/$cc.cubin" "$@" "$source" >"$folder/$cc.log" 2>&1 ||
    mv "$folder/$cc.log" "$folder/failed_$cc.log" &
done
wait
if ls "$folder"/failed_* >/dev/null 2>&1; then
  tail -n 20 "$folder"/failed_*
  exit 1
fi

# "Compiling entry function '_ZN…' for 'sm_90'", and two lines below that
# "16 bytes stack frame, 12 bytes spill stores, 12 bytes spill loads", and then "Used 255 registers".
awk -F"'" -v except="$except" '
  /Compiling entry function/ { name = $2; cc = $4 }
  /bytes stack frame/ { split($0, word, " "); stack = word[1]; stores = word[5]; loads = word[9] }
  /Used [0-9]+ registers/ {
    kernels++
    command = "c++filt " name " 2>/dev/null || echo " name
    command | getline name
    close(command)
    sub(/^void /, "", name)
    sub(/>\(.*/, ">", name)
    if (stack + stores + loads == 0) next
    allowed = except != "" && name ~ except && stores <= 40
    spilling += !allowed
    print cc ": " name " has " stack " bytes of stack, " stores " bytes of spill stores, " loads \
      " of spill loads" (allowed ? " (an exception)" : "")
  }
  END {
    if (kernels == 0) print "nvcc reported no kernel: nothing was looked at"
    else print kernels " kernels, " spilling + 0 " of them spill and should not"
    exit kernels == 0 || spilling > 0
  }' "$folder"/[0-9]*.log
