#!/bin/bash
# machine.sh FOLDER PACKAGES SCRIPT: runs SCRIPT on a Debian with systemd as its first process: in namespaces of their own, over
# the files of this machine, which stay as they are. FOLDER is empty, and PACKAGES is /packages there. Needs root, in a
# mount namespace that ends with this script.
set -e
folder=$1 packages=$2 script=$3
mount -t tmpfs tmpfs "$folder"
mkdir "$folder"/{upper,work,root,groups}
root=$folder/root

# Only files of this machine that differ are kept, in memory.
mount -t overlay -o "lowerdir=/,upperdir=$folder/upper,workdir=$folder/work" overlay "$root"
# None of the services that are installed here start there.
rm -rf "$root"/etc/systemd/system/*.wants "$root/etc/fstab" "$root/usr/sbin/policy-rc.d"
# dpkg would index all manual pages again.
rm -f "$root/var/lib/man-db/auto-update"
mkdir -p "$root/packages" "$root/etc/systemd/system"
printf '[Unit]\nRequires=basic.target\nAfter=basic.target\nAllowIsolate=yes\n' >"$root/etc/systemd/system/machine.target"
ln -sf machine.target "$root/etc/systemd/system/default.target"
mount --bind "$packages" "$root/packages"

# A group of processes that can be ended as a whole.
mount -t cgroup2 cgroup2 "$folder/groups"
group=$folder/groups/tollgate-machine-$$
mkdir "$group"
end() {
    echo 1 >"$group/cgroup.kill"
    # Processes take a moment to end.
    for _ in $(seq 100); do
        ! find "$group" -depth -type d -exec rmdir {} + 2>/dev/null || return 0
        sleep 0.1
    done
}
trap end EXIT

boot='
    mount -t proc proc "$1/proc"
    mount --bind "$1/proc/sys" "$1/proc/sys"
    mount -o remount,ro,bind "$1/proc/sys"
    mount -t sysfs -o ro sysfs "$1/sys"
    mount -t cgroup2 cgroup2 "$1/sys/fs/cgroup"
    mount -t tmpfs -o mode=755 tmpfs "$1/dev"
    for device in null zero full random urandom tty; do
        touch "$1/dev/$device"
        mount --bind "/dev/$device" "$1/dev/$device"
    done
    mkdir "$1/dev/pts" "$1/dev/shm"
    mount -t devpts -o newinstance,ptmxmode=0666 devpts "$1/dev/pts"
    ln -s pts/ptmx "$1/dev/ptmx"
    mount -t tmpfs -o mode=1777 tmpfs "$1/dev/shm"
    mount -t tmpfs -o mode=755 tmpfs "$1/run"
    mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
    mkdir "$1/run/before"
    cd "$1"
    pivot_root . run/before
    umount -l run/before
    # What would reach beyond the namespaces: modules of the kernel, its clock, the power switch.
    exec env -i container=machine setpriv --bounding-set=-sys_module,-sys_boot,-sys_time,-sys_rawio /lib/systemd/systemd
'
(
    echo 0 >"$group/cgroup.procs"
    exec unshare --cgroup --ipc --mount --net --pid --uts --fork sh -ec "$boot" sh "$root"
) </dev/null >&2 &
machine=$!
# Its end is no news.
disown

inside() { nsenter --target "$first" --cgroup --ipc --mount --net --pid --uts "$@"; }
has_started() {
    first=$(cat "$group/init.scope/cgroup.procs" 2>/dev/null) && [ -n "$first" ] &&
        inside systemctl is-active --quiet machine.target 2>/dev/null
}
for _ in $(seq 600); do
    ! has_started || break
    kill -0 "$machine"
    sleep 0.1
done
has_started
inside env -i HOME=/root PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C sh -ec "$script"
