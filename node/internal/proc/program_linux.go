package proc

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// /proc/self/exe is the file of this program until the program of a container has begun, and an
// image may name it as its entrypoint, or as the interpreter of a script. The file is on a
// read-only mount, so that containers cannot change it (launcher_linux.go); it is not what they run
// either.

const (
	// longestInterpreter is the number of bytes of a script in which the kernel looks for its
	// interpreter.
	longestInterpreter = 256
	// deepestScript is the number of scripts that interpret each other, as in the kernel.
	deepestScript = 5
)

// errOwnProgram is the error for a program of a container that is the one of the node.
var errOwnProgram = errors.New("it is the program of the node, not one of the container")

// checkProgram returns an error if a program, or the interpreter of a script, is this program on
// the mount from which it was started. A container may replace a script in between, and then runs
// this program, with its own permissions.
func checkProgram(path string) error {
	own, err := fileAt(ownProgram)
	if err != nil {
		return nil // there is no /proc by which it could be named
	}
	return checkNotOwn(path, own)
}

func checkNotOwn(path string, own fileID) error {
	for range deepestScript + 1 {
		is, err := fileAt(path)
		if err != nil {
			return err
		}
		if is == own {
			return &os.PathError{Op: "exec", Path: path, Err: errOwnProgram}
		}
		next, err := interpreter(path)
		if next == "" || err != nil {
			return nil // the kernel reports what cannot be executed
		}
		path = next
	}
	return &os.PathError{Op: "exec", Path: path, Err: unix.ELOOP}
}

// A fileID is a file as a mount shows it.
type fileID struct{ mount, inode uint64 }

func fileAt(path string) (fileID, error) {
	var s unix.Statx_t
	if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_INO|unix.STATX_MNT_ID, &s); err != nil {
		return fileID{}, &os.PathError{Op: "exec", Path: path, Err: err}
	}
	if s.Mask&unix.STATX_MNT_ID == 0 {
		return fileID{}, fmt.Errorf("statx %s: the kernel does not support STATX_MNT_ID", path)
	}
	return fileID{s.Mnt_id, s.Ino}, nil
}

// interpreter returns the interpreter of a script; "" for another file.
func interpreter(path string) (string, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return "", err
	}
	head, err := io.ReadAll(io.LimitReader(f, longestInterpreter))
	line, found := bytes.CutPrefix(head, []byte("#!"))
	if !found || err != nil {
		return "", err
	}
	line, _, _ = bytes.Cut(line, []byte("\n"))
	if fields := bytes.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' }); len(fields) > 0 {
		return string(fields[0]), nil
	}
	return "", nil
}
