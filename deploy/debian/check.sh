#!/usr/bin/env bash
# check.sh PACKAGE.deb: asks lintian about the package and systemd about its unit, installs it into a Debian 12 that has nothing
# else, and there classifies a picture with the server that its config file starts, as a user without rights. Then that Debian is
# booted, and the unit tried by tests/deploy/test_unit.py. As root; some minutes.
# The base system is kept in FOVEA_CACHE (~/.cache/fovea) and copied for each run. Exits 1 when anything failed.
set -euo pipefail
package=$(readlink -f "$1")
checkout=$(dirname "$(readlink -f "$0")")/../..
cache=${FOVEA_CACHE:-$HOME/.cache/fovea}
base=$cache/debian-12
say() { printf '\033[1m== %s\033[0m\n' "$*"; }

[ "$(id -u)" = 0 ] || { echo "check.sh: run it as root: it makes a system in a folder" >&2; exit 1; }
missing=()
for tool in debootstrap lintian; do command -v $tool >/dev/null || missing+=("$tool"); done
command -v systemd-nspawn >/dev/null || missing+=(systemd-container)
[ ${#missing[@]} = 0 ] || DEBIAN_FRONTEND=noninteractive apt-get install -y -q --no-install-recommends "${missing[@]}"

say "lintian"
lintian --allow-root --fail-on error,warning "$package"

root=$(mktemp -d "${TMPDIR:-/tmp}/fovea-package-XXXXXX")
leave() {
  umount -l "$root/proc" "$root/dev" 2>/dev/null || true
  rm -rf --one-file-system "$root"
}
trap leave EXIT

say "the unit"
dpkg-deb -x "$package" "$root/unpacked"
cp -an /lib/systemd/system/. "$root/unpacked/lib/systemd/system/"  # what the unit refers to
mkdir "$root/unpacked/bin"
cp /bin/sh "$root/unpacked/bin/"
unit=$root/unpacked/lib/systemd/system/fovea-server.service
systemd-analyze verify --root="$root/unpacked" --man=no "$unit" 2>&1 | grep fovea && exit 1
systemd-analyze security --offline=yes --threshold=25 "$unit" | tail -n 1
rm -rf "$root/unpacked"

say "a Debian with nothing else"
if [ ! -e "$base/.made" ]; then
  rm -rf --one-file-system "$base"
  mirror=$(awk '/^URIs:/{print $2; exit} /^deb /{print $2; exit}' /etc/apt/sources.list.d/*.sources /etc/apt/sources.list 2>/dev/null || true)
  debootstrap --variant=minbase --include=ca-certificates bookworm "$base" "${mirror:-https://deb.debian.org/debian}" > "$base.log"
  touch "$base/.made"
fi
cp -a "$base/." "$root"
# This machine's way to Debian's packages.
rm -f "$root/etc/apt/sources.list"
cp -rL /etc/apt/sources.list* /etc/apt/apt.conf.d "$root/etc/apt/" 2>/dev/null || true
cp -L /etc/resolv.conf /etc/hosts "$root/etc/"
cp -L /etc/ssl/certs/ca-certificates.crt "$root/etc/ssl/certs/"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"
mount --make-rslave "$root/dev"
cp "$package" "$root/tmp/fovea.deb"

inside() { chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive LANG=C.UTF-8 "$@"; }
say "installing"
inside apt-get update -q
inside apt-get install -y -q --no-install-recommends /tmp/fovea.deb
rm "$root/tmp/fovea.deb"

say "serving, as a user without rights"
cat > "$root/tmp/serve.sh" <<'SERVE'
set -e
as_nobody="setpriv --reuid=nobody --regid=nogroup --clear-groups --bounding-set=-all --inh-caps=-all --no-new-privs"
$as_nobody fovea-server --config /etc/fovea/server.toml --check-config
$as_nobody fovea-server --config /etc/fovea/server.toml > /tmp/server.log 2>&1 &
server=$!
for _ in $(seq 600); do
  grep -q '^ready: 1 model' /tmp/server.log && break
  kill -0 $server 2>/dev/null || break
  sleep 0.2
done
cat /tmp/server.log
for picture in star heart; do
  $as_nobody fovea classify --model shapes --top-k 1 /usr/share/fovea/examples/$picture.* | tee /tmp/answer
  grep -q $picture /tmp/answer
done
$as_nobody fovea kernels > /dev/null
kill -TERM $server
wait $server
SERVE
# With a network of its own: the package's ports may be taken here.
unshare --net bash -c "ip link set lo up && exec chroot '$root' env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 sh /tmp/serve.sh"

say "the unit under systemd"
inside apt-get install -y -q --no-install-recommends systemd
FOVEA_TEST_DEBIAN=$root "$checkout/.venv/bin/python" -m pytest -q -p no:cacheprovider "$checkout/tests/deploy/test_unit.py"

say "removing"
inside dpkg --purge fovea
left=$(find "$root/etc/fovea" "$root/usr/lib/fovea" "$root/usr/share/fovea" 2>/dev/null || true)
[ -z "$left" ] || { echo "left behind: $left" >&2; exit 1; }
say "the package is sound"
