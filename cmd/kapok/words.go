package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok"
)

// inWords returns an error without the call of the system that failed, which a user has not made: which
// file or directory does not exist says enough.
func inWords(err error) error {
	call := (*fs.PathError)(nil)
	if !errors.As(err, &call) || !errors.Is(call, fs.ErrNotExist) {
		return err
	}
	missing := call.Path
	for parent := filepath.Dir(missing); parent != filepath.Dir(parent); parent = filepath.Dir(parent) {
		if _, err := os.Stat(parent); !errors.Is(err, fs.ErrNotExist) {
			break
		}
		missing = parent
	}
	return &reworded{err, strings.Replace(err.Error(), call.Error(), missing+" does not exist", 1)}
}

// checkWords rejects values that only libraries would reject, in words that do not name the flag.
func checkWords(o *kapok.Options) error {
	modes := []string{"Node", "RBAC", "Webhook", "AlwaysAllow"}
	for _, mode := range o.Access.Modes {
		if !slices.Contains(modes, mode) {
			return fmt.Errorf("--authorization-mode %q: want %s", mode, strings.Join(modes, ", "))
		}
	}
	suites := append(tls.CipherSuites(), tls.InsecureCipherSuites()...)
	for _, name := range o.Serving.CipherSuites {
		if !slices.ContainsFunc(suites, func(s *tls.CipherSuite) bool { return s.Name == name }) {
			return fmt.Errorf("--tls-cipher-suites %q: want names such as %s", name, suites[len(suites)-1].Name)
		}
	}
	if o.Audit.PolicyFile != "" && o.Audit.LogPath == "" && o.Audit.Webhook == "" {
		return errors.New("--audit-policy-file requires a destination of events: set --audit-log-path or --audit-webhook-config-file")
	}
	return nil
}
