//go:build !linux

package oci

import "os"

// syncSystem writes a directory to the disk. Containers of images run on Linux only.
func syncSystem(f *os.File) error { return f.Sync() }

// lockFile does not lock a file on this system.
func lockFile(*os.File) error { return nil }

// usage returns the percentage of a file system that is in use.
func usage(string) (percent int, err error) { return 0, nil }
