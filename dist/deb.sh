#!/bin/bash
# Makes the Debian package of programs that are built already: dist/deb.sh FOLDER, or `make deb`. It lies beside
# them afterwards. Everything in it comes from `make install`; what it depends on is read off the programs.
# COMPRESSION is a method of dpkg-deb [default: xz].
set -euo pipefail
cd "$(dirname "$0")/.."
build=$(realpath "${1:?usage: dist/deb.sh FOLDER_WITH_PROGRAMS}")

for tool in dpkg-deb dpkg-shlibdeps dpkg-architecture; do
    command -v "$tool" >/dev/null || { echo "deb.sh: $tool is missing: apt-get install dpkg-dev" >&2; exit 3; }
done
version=$(sed -n '/workspace.package/,/^$/s/^version = "\(.*\)"/\1/p' Cargo.toml)
architecture=$(dpkg-architecture -qDEB_HOST_ARCH)
libraries=/usr/lib/$(dpkg-architecture -qDEB_HOST_MULTIARCH)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
root=$work/root
mkdir -m 755 "$root" "$root/DEBIAN"
make --silent install DESTDIR="$root" PREFIX=/usr LIBDIR="$libraries" \
    ZSHDIR=/usr/share/zsh/vendor-completions BUILD="$build"
install -d "$root/etc/headgate"
find "$root/usr/share/man" -name '*.[18]' -exec gzip -9n {} +
install -m 755 dist/deb/postinst dist/deb/prerm dist/deb/postrm "$root/DEBIAN/"
# The C library is found by programs from then on, and no longer afterwards.
echo "activate-noawait ldconfig" >"$root/DEBIAN/triggers"
echo "libheadgate_nf 1 headgate" >"$root/DEBIAN/shlibs"

# dpkg-shlibdeps wants the source package's control file; it reads no more than that there is one.
mkdir "$work/debian"
printf 'Source: headgate\n\nPackage: headgate\nArchitecture: any\n' >"$work/debian/control"
depends=$(cd "$work" && dpkg-shlibdeps -O -xheadgate root/usr/bin/* "root$libraries"/libheadgate_nf.so.1)

cat >"$root/DEBIAN/control" <<CONTROL
Package: headgate
Version: $version
Architecture: $architecture
Maintainer: The Headgate authors <headgate@localhost>
Section: net
Priority: optional
Installed-Size: $(du -sk --exclude=DEBIAN "$root" | cut -f1)
Depends: ${depends#shlibs:Depends=}
Recommends: iproute2, librte-meta-bus, librte-meta-mempool, librte-meta-net
Suggests: pkg-config, iperf3, curl, openvswitch-switch, runc
Description: chains of network functions on shared cores
 Headgate gives each network function the CPU that its traffic needs, sheds
 packets that cannot be served at the head of their chain, and loses nothing
 when a function dies. This package has the command, the daemon with its
 systemd unit, the functions it ships, the benchmarks, and the C library.
CONTROL
(cd "$root" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum) \
    >"$work/md5sums"
mv "$work/md5sums" "$root/DEBIAN/md5sums"

package=$build/headgate_${version}_$architecture.deb
dpkg-deb --root-owner-group -Z"${COMPRESSION:-xz}" --build "$root" "$package" >/dev/null
echo "$package"
