//go:build !(aix || darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package transport

import "errors"

// sharePort returns an error: the system has no SO_REUSEPORT.
func sharePort(uintptr) error {
	return errors.New("Options.Serving.SharePort is set: this operating system cannot share ports")
}
