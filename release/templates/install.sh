#!/bin/sh
# Installs kapok [[.Version]]: downloads the archive of this system, refuses it unless it has the checksum that this script knows,
# and puts the program into a directory.
#
#   KAPOK_INSTALL_DIR  the directory; default /usr/local/bin if it is writable, otherwise $HOME/.local/bin
#   KAPOK_BASE_URL     the URL of the directory with the archives; default [[.BaseURL]]
#
# It needs curl or wget; sha256sum, shasum or openssl; and tar, or unzip on Windows.
set -eu

base=${KAPOK_BASE_URL:-[[.BaseURL]]}

# checksum prints the checksum of an archive of this version.
checksum() {
	case $1 in
[[- range .Archives]]
	[[.File]]) echo [[.SHA256]] ;;
[[- end]]
	*) fail "kapok [[.Version]] has no archive $1" ;;
	esac
}

fail() {
	echo "install kapok: $1" >&2
	exit 1
}

# fetch downloads a URL into a file.
fetch() {
	if command -v curl >/dev/null 2>&1; then
		curl --fail --silent --show-error --location --retry 3 --output "$2" "$1" || fail "cannot download $1"
	elif command -v wget >/dev/null 2>&1; then
		wget -q -O "$2" "$1" || fail "cannot download $1"
	else
		fail "curl or wget is required"
	fi
}

# sha256 prints the checksum of a file.
sha256() {
	if command -v sha256sum >/dev/null 2>&1; then
		sha256sum <"$1" | cut -d ' ' -f 1
	elif command -v shasum >/dev/null 2>&1; then
		shasum -a 256 <"$1" | cut -d ' ' -f 1
	elif command -v openssl >/dev/null 2>&1; then
		openssl dgst -sha256 -r <"$1" | cut -d ' ' -f 1
	else
		fail "sha256sum, shasum or openssl is required"
	fi
}

# platform prints the system and the architecture, as the names of archives have them.
platform() {
	case $(uname -s) in
	Linux) system=linux ;;
	Darwin) system=darwin ;;
	MINGW* | MSYS* | CYGWIN*) system=windows ;;
	*) fail "there is no kapok for the system $(uname -s)" ;;
	esac
	case $(uname -m) in
	x86_64 | amd64) echo "$system-amd64" ;;
	aarch64 | arm64) echo "$system-arm64" ;;
	*) fail "there is no kapok for the architecture $(uname -m)" ;;
	esac
}

# directory prints where the program goes.
directory() {
	if [ -n "${KAPOK_INSTALL_DIR:-}" ]; then
		echo "$KAPOK_INSTALL_DIR"
	elif [ -d /usr/local/bin ] && [ -w /usr/local/bin ]; then
		echo /usr/local/bin
	else
		echo "${HOME:?}/.local/bin"
	fi
}

# main is called in the last line: a script that is cut off does nothing.
main() {
	name=kapok-[[.Version]]-$(platform)
	archive=$name.tar.gz program=kapok
	case $name in
	*-windows-*) archive=$name.zip program=kapok.exe ;;
	esac
	want=$(checksum "$archive")
	dir=$(directory)

	scratch=$(mktemp -d)
	trap 'rm -rf "$scratch"' EXIT
	trap 'exit 1' HUP INT TERM
	fetch "$base/$archive" "$scratch/$archive"
	got=$(sha256 "$scratch/$archive")
	[ "$got" = "$want" ] || fail "$base/$archive has the checksum $got instead of $want: it is not installed"

	case $archive in
	*.zip) unzip -q "$scratch/$archive" -d "$scratch" ;;
	*) tar -xzf "$scratch/$archive" -C "$scratch" ;;
	esac
	mkdir -p "$dir"
	# A rename replaces a program that runs, and leaves no half of one.
	cp "$scratch/$name/$program" "$dir/.$program.$$"
	chmod 755 "$dir/.$program.$$"
	mv -f "$dir/.$program.$$" "$dir/$program"
	echo "kapok [[.Version]] is installed as $dir/$program"
	case :$PATH: in
	*:"$dir":*) ;;
	*) echo "$dir is not in PATH" ;;
	esac
}

main
