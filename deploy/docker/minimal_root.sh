#!/usr/bin/env bash
# minimal_root.sh FOLDER PREFIX: makes FOLDER the root of an image that holds Fovea as it is installed below PREFIX and the shared
# libraries that its programs and its own libraries load, and nothing else: no shell, no package manager, no file that can be
# written to. Each library's Debian package is named in var/lib/dpkg/status.d, where scanners look, and its copyright is kept.
# Left out: what serves nobody (the trainer, manual pages, completion, examples).
set -euo pipefail
root=$1
prefix=${2#/}
mkdir -p "$root"/usr/{bin,sbin,lib,lib64} "$root"/etc "$root"/var/lib/dpkg/status.d
for folder in bin sbin lib lib64; do ln -s "usr/$folder" "$root/$folder"; done

# Fovea.
programs=(fovea-server fovea fovea-check fovea-kernels)
mkdir -p "$root/$prefix"/{bin,lib,share/fovea,share/doc}
for program in "${programs[@]}"; do cp -a "/$prefix/bin/$program" "$root/$prefix/bin/"; done
cp -a "/$prefix/lib/fovea" "$root/$prefix/lib/"
cp -a "/$prefix/share/fovea/models" "$root/$prefix/share/fovea/"
cp -aL "/$prefix/share/doc/fovea" "$root/$prefix/share/doc/"
[ "$prefix" = usr ] || for program in "${programs[@]}"; do ln -s "/$prefix/bin/$program" "$root/usr/bin/$program"; done

# What they load, under the names by which they ask for it.
objects=("${programs[@]/#//$prefix/bin/}")
mapfile -t -O ${#objects[@]} objects < <(find "/$prefix/lib/fovea" -name '*.so*' -type f)
needed=$(ldd "${objects[@]}")
if grep 'not found' <<< "$needed"; then exit 1; fi
# Lines: "libz.so.1 => /lib/x86_64-linux-gnu/libz.so.1 (0x...)" and "/lib64/ld-linux-x86-64.so.2 (0x...)".
mapfile -t libraries < <(grep -o '/[^ ]*\.so[^ ]* (' <<< "$needed" | sed 's/ ($//' | grep -v "^/$prefix/lib/fovea/" | sort -u)
for library in "${libraries[@]}"; do
  mkdir -p "$root$(dirname "$library")"
  cp -L --preserve=mode,timestamps "$library" "$root$library"
  owner=$(dpkg -S "$library" 2>/dev/null || dpkg -S "/usr$library" 2>/dev/null || dpkg -S "$(readlink -f "$library")")
  echo "${owner%%:*}"
done | sort -u > "$root/packages"
if dpkg -s fovea > /dev/null 2>&1; then echo fovea >> "$root/packages"; fi
while read -r package; do
  dpkg -s "$package" > "$root/var/lib/dpkg/status.d/$package"
  copyright=/usr/share/doc/$package/copyright
  if [ -e "$copyright" ] && [ "$package" != fovea ]; then
    mkdir -p "$root$(dirname "$copyright")"
    cp -L "$copyright" "$root$copyright"
  fi
done < "$root/packages"
rm "$root/packages"

# What programs ask of the system.
cp -L /etc/os-release "$root/etc/os-release"
echo 'fovea:x:65532:65532:fovea:/:/usr/sbin/nologin' > "$root/etc/passwd"
echo 'fovea:x:65532:' > "$root/etc/group"
echo 'hosts: files dns' > "$root/etc/nsswitch.conf"
chmod -R a+rX,go-w "$root"
# The same whenever it is made.
find "$root" -exec touch -hcd "@${SOURCE_DATE_EPOCH:-0}" {} +
