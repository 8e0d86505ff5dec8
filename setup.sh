#!/usr/bin/env bash
# Installs what Headgate is built and tested with, on Debian 12 or later, and checks the versions of it. Safe to run
# again. Rust is not installed by it but checked: that of the user, also where sudo runs this.
set -euo pipefail
cd "$(dirname "$0")"

build=(build-essential pkg-config libdpdk-dev libclang-dev)
test=(iproute2 iputils-ping iperf3 curl nginx-light tshark tcpdump valgrind openvswitch-switch runc etcd-server dpdk-dev socat shellcheck
    python3-prometheus-client prometheus chromium frr)

fail() {
    printf 'setup.sh: %s\n' "$@" >&2
    exit 3
}

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
    fail "this is not Debian; install what these packages have, and build with \`make\`: ${build[*]}"
fi

missing=()
for package in "${build[@]}" "${test[@]}"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
    [ "$(id -u)" -eq 0 ] || fail "these packages are missing: ${missing[*]}" \
        "run this script as root, or install them with: sudo apt-get install ${missing[*]}"
    apt-get update -qq
    # RUNLEVEL=1 keeps packages with a service (nginx, Open vSwitch, Prometheus, FRR) from starting it.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

# at_least NAME FOUND WANTED CURE
at_least() {
    [ -n "$2" ] || fail "$1 is missing: $4"
    dpkg --compare-versions "$2" ge "$3" || fail "$1 is $2, and $3 or later is needed: $4"
}

at_least DPDK "$(pkg-config --modversion libdpdk 2>/dev/null || true)" 22.11 \
    "apt-get install libdpdk-dev, of Debian 12 or later; of another DPDK, name its pkgconfig folder in PKG_CONFIG_PATH"
at_least libclang "$(dpkg-query --show --showformat='${Version}' libclang-dev 2>/dev/null | sed 's/^[0-9]*://')" 14 \
    "apt-get install libclang-dev, of Debian 12 or later"

# sudo leaves the user's rustup out of PATH, and root needs no Rust of its own.
if [ -n "${SUDO_USER:-}" ]; then
    home=$(getent passwd "$SUDO_USER" | cut -d: -f6)
    PATH=${home:-/nonexistent}/.cargo/bin:$PATH
    # The toolchain that rustup chose for that user, and not root's.
    export RUSTUP_HOME="${RUSTUP_HOME:-$home/.rustup}"
fi
wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
for tool in cargo rustc; do
    # `rustc 1.95.0 (59807616e 2026-04-14)`
    found=$("$tool" --version 2>/dev/null | cut -d' ' -f2 || true)
    at_least "$tool" "$found" "$wanted" \
        "\`rustup update stable\`; without rustup, get it from https://rustup.rs (Debian's own Rust is older)"
done
