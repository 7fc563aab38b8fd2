package main

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok"
)

// inWords returns an error in words that do not need the source of a library: without the call of
// the system that failed, as which file or directory does not exist says enough, and without the Go
// types that a file does not fit.
func inWords(err error) error {
	if text := err.Error(); unfit.MatchString(text) {
		return &reworded{err, unfit.ReplaceAllStringFunc(text, fits)}
	}
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

// unfit matches what libraries say of JSON that does not fit a Go type, up to the end of the line.
var unfit = regexp.MustCompile(`((couldn't get version/kind; json parse error|error unmarshaling JSON|while decoding JSON): )*` +
	`json: cannot unmarshal (\w+) into Go (value|struct field (\S+)) of type .*`)

// fits says what unfit has matched in words.
func fits(said string) string {
	m := unfit.FindStringSubmatch(said)
	article := "a "
	if strings.ContainsAny(m[3][:1], "aeiou") {
		article = "an "
	}
	if _, field, _ := strings.Cut(m[5], "."); field != "" {
		return "field " + field + " is " + article + m[3]
	}
	return "want fields such as apiVersion and kind, not " + article + m[3]
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
	if oidc := &o.Authentication.OIDC; !reflect.ValueOf(*oidc).IsZero() && (oidc.IssuerURL == "" || oidc.ClientID == "") {
		return errors.New("--oidc-issuer-url and --oidc-client-id: set both to use OpenID Connect")
	}
	return nil
}
