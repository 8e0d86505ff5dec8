#!/usr/bin/env bash
# Installs what Headgate is built and tested with, on Debian 12 or later. Safe to run again.
set -euo pipefail

build=(build-essential pkg-config libdpdk-dev libclang-dev)
test=(iproute2 iperf3 curl nginx-light tshark tcpdump valgrind openvswitch-switch runc dpdk-dev socat)

missing=()
for package in "${build[@]}" "${test[@]}"; do
    status=$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)
    [ "$status" = installed ] || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
    if [ "$(id -u)" -ne 0 ]; then
        echo "setup.sh: these packages are missing: ${missing[*]}" >&2
        echo "setup.sh: run this script as root, or install them with: sudo apt-get install ${missing[*]}" >&2
        exit 3
    fi
    apt-get update -qq
    # RUNLEVEL=1 keeps packages with a service (nginx, Open vSwitch) from starting it.
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
fi

if ! command -v cargo >/dev/null; then
    echo "setup.sh: cargo is missing: install Rust 1.95 or later with rustup (https://rustup.rs)" >&2
    exit 3
fi
