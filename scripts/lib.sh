# Sourced by the scripts: where things are, what to install, steps with their times. Debian 12 and Ubuntu 24.04.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
models=${LLMINFER_MODELS:-${XDG_CACHE_HOME:-$HOME/.cache}/llminfer}

say() { printf '%s\n' "$*" >&2; }
die() { say "error: $*"; exit 1; }

# What each job needs, as Debian and Ubuntu name it. `command:package` is satisfied by a command of any origin.
build_packages=(g++:g++ cmake:cmake ninja:ninja-build libfmt-dev libpcre2-dev libutf8proc-dev libeigen3-dev
  nlohmann-json3-dev libcli11-dev libcpp-httplib-dev)
test_packages=(catch2 clang++:clang git:git nm:binutils file:file pkg-config:pkg-config python3:python3)
model_packages=(python3:python3)

# The compiler's sanitizer and fuzzer libraries are a package of their own, named after its version.
sanitizer_package() {
  local major
  if command -v clang++ >/dev/null; then
    major=$(clang++ -dumpversion | cut -d. -f1)
  else
    major=$(. /etc/os-release; [ "$ID" = ubuntu ] && echo 18 || echo 14)
  fi
  echo "libclang-rt-$major-dev"
}

is_installed() {  # package or command:package
  case $1 in
    *:*) command -v "${1%%:*}" >/dev/null ;;
    *) [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = 'install ok installed' ] ;;
  esac
}

# Installs what is missing of the list; calls apt only then.
install_packages() {
  local entry log missing=() sudo=()
  for entry; do is_installed "$entry" || missing+=("${entry#*:}"); done
  [ ${#missing[@]} -gt 0 ] || return 0
  command -v apt-get >/dev/null || die "these packages are missing, and there is no apt-get: ${missing[*]}"
  if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "these packages are missing, and there is no sudo to install them: ${missing[*]}"
    sudo=(sudo)
  fi
  say "installing ${missing[*]}"
  # A package source that cannot be reached is no reason to stop: the others may have all that is needed.
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -q >/dev/null || say 'apt-get update failed, going on'
  log=$(mktemp)
  "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}" \
    </dev/null >"$log" 2>&1 || { cat "$log" >&2; die "apt-get could not install ${missing[*]}"; }
  rm "$log"
}

# Steps: each runs in a shell of its own, its time is noted, and a failure does not keep the next ones from running:
# `step_results` tells. To be called as a plain command: as a condition, or before `||`, it would switch `set -e` off
# inside, and a step that fails halfway would go on.
step_names=()
step_results=()
run_step() {  # run_step 'what it does' function argument ...
  local name=$1 start=$SECONDS result=ok
  shift
  say "=== $name"
  set +e
  (set -e; "$@")
  [ $? -eq 0 ] || result=FAILED
  set -e
  step_names+=("$name")
  step_results+=("$result $((SECONDS - start))")
  say "=== $name: $result after $((SECONDS - start)) s"
}

print_steps() {
  local i
  for i in "${!step_names[@]}"; do
    read -r result seconds <<<"${step_results[i]}"
    printf '%-8s %5d s  %s\n' "$result" "$seconds" "${step_names[i]}"
  done
}
