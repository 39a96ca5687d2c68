#!/bin/sh
# Build the CPU image from nothing, without Docker and without a registry, and see in it: doctor, a server, a worker, a flow.
#   make images-test            as root, on Debian with buildah and debootstrap installed; an hour on a slow network
# The Python base image is made here: Debian's root and its Python, under the name that the Dockerfile begins from.
# BUILD_OPTIONS are handed to buildah as they are, such as --volume /etc/pip.conf:/etc/pip.conf:ro for an index of your own.
set -eu
cd "$(dirname "$0")/.."
base=docker.io/library/$(sed -n 's/^FROM //p' docker/Dockerfile)
image=localhost/noisyir:test
work=$(mktemp --directory)
isolated="--isolation chroot"
trap 'buildah umount --all >/dev/null 2>&1 || true; rm -rf "$work"' EXIT

needs() { command -v "$1" >/dev/null || { echo "images-test needs $1: apt-get install buildah debootstrap" >&2; exit 2; }; }
needs buildah
needs debootstrap
[ "$(id -u)" = 0 ] || { echo "images-test makes file systems: run it as root" >&2; exit 2; }
store() { buildah --storage-driver overlay "$@"; }
took() { echo "$1: $(($(date +%s) - began)) s"; began=$(date +%s); }
began=$(date +%s)

if ! store inspect --type image "$base" >/dev/null 2>&1; then
    debootstrap --variant=minbase --include=python3,python3-pip,ca-certificates bookworm "$work/root" >"$work/log" 2>&1 \
        || { tail -5 "$work/log" >&2; exit 1; }
    # As in the official image, pip installs for everybody, `python` is Python 3, and there are no manuals.
    rm -f "$work"/root/usr/lib/python3*/EXTERNALLY-MANAGED
    rm -rf "$work"/root/var/cache/apt "$work"/root/var/lib/apt/lists "$work"/root/usr/share/doc "$work"/root/usr/share/man "$work"/root/usr/share/locale
    ln -sf python3 "$work/root/usr/bin/python"
    empty=$(store from scratch)
    store add --quiet "$empty" "$work/root" /
    store commit --quiet "$empty" "$base" >/dev/null
    store rm "$empty" >/dev/null
    took "base image"
fi

# shellcheck disable=SC2086 # options are words
store bud --pull-never --layers --network host $isolated ${BUILD_OPTIONS:-} --tag "$image" --file docker/Dockerfile .
took "noisyir's image"
store images --format '{{.Name}}:{{.Tag}} {{.Size}}' | grep -E 'noisyir|python'

container=$(store from --pull-never "$image")
# shellcheck disable=SC2086
inside() { store run --network host $isolated "$container" -- "$@"; }
inside sh -ec 'test "$(id -u)" = 1000 && noisyir doctor'
inside sh -ec "$(cat docker/try_image.sh)"
store rm "$container" >/dev/null
took "doctor, server, worker and flow in the image"
