package pki

import (
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestExamine damages each file of a data directory in turn, and expects the problem with that file
// only.
func TestExamine(t *testing.T) {
	now := time.Now()
	made := func(t *testing.T) (data, dir string) {
		t.Helper()
		data = t.TempDir()
		if err := os.Chmod(data, 0o700); err != nil {
			t.Fatal(err)
		}
		dir = filepath.Join(data, "pki")
		if _, err := Open(dir, nil, []string{"localhost"}, now); err != nil {
			t.Fatal(err)
		}
		if _, err := OpenFrontProxy(dir, now); err != nil {
			t.Fatal(err)
		}
		if _, err := SigningKey(dir); err != nil {
			t.Fatal(err)
		}
		return data, dir
	}
	content := func(name, text string) func(string) error {
		return func(dir string) error { return os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600) }
	}
	mode := func(name string, mode fs.FileMode) func(string) error {
		return func(dir string) error { return os.Chmod(filepath.Join(dir, name), mode) }
	}
	remove := func(name string) func(string) error {
		return func(dir string) error { return os.Remove(filepath.Join(dir, name)) }
	}
	exchange := func(name, with string) func(string) error { // the content of another file
		return func(dir string) error {
			data, err := os.ReadFile(filepath.Join(dir, with))
			if err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(dir, name), data, 0o600)
		}
	}
	const private, year = "-----BEGIN PRIVATE KEY-----\n", 365 * 24 * time.Hour
	for name, tc := range map[string]struct {
		damage func(dir string) error
		later  time.Duration
		want   []string // in order; "" for none
		modes  bool
	}{
		"nothing":                      {},
		"certificate of the authority": {damage: content("ca.crt", "x"), want: []string{"pki/ca.crt: no certificate in PEM"}},
		"key of the authority":         {damage: content("ca.key", private), want: []string{"pki/ca.key: no ECDSA key in PEM"}},
		"another key":                  {damage: exchange("ca.key", "front-proxy-ca.key"), want: []string{"pki/ca.key: the key does not belong to the certificate in ca.crt"}},
		"no key":                       {damage: remove("ca.key"), want: []string{"pki/ca.key: the file is missing"}},
		"no certificate":               {damage: remove("front-proxy-ca.crt"), want: []string{"pki/front-proxy-ca.crt: the file is missing: the next start"}},
		"an earlier version's":         {damage: exchangeMerged("ca"), want: []string{"pki/ca.pem: the file has certificate and private key"}},
		"no authority":                 {damage: exchangeMerged("admin.pem", "ca"), want: []string{"pki/ca.pem: the file has", "pki/ca.pem: the certificate is not that of an authority", "pki/server.pem: the certificate is not signed", "pki/admin.pem: the certificate is not signed"}},
		"server":                       {damage: content("server.pem", ""), want: []string{"pki/server.pem: it must have a certificate and an ECDSA key in PEM"}},
		"admin":                        {damage: exchange("admin.pem", "front-proxy.pem"), want: []string{"pki/admin.pem: the certificate is not signed by the authority"}},
		"proxy":                        {damage: content("front-proxy.pem", "x"), want: []string{"pki/front-proxy.pem: it must have a certificate"}},
		"signing key":                  {damage: content("service-account.pem", "x"), want: []string{"pki/service-account.pem: data does not contain a valid RSA or ECDSA private key"}},
		"token":                        {damage: content("token", "\n"), want: []string{"pki/token: the file is empty"}},
		"before its time":              {later: -31 * 24 * time.Hour, want: []string{"pki/ca.crt: the certificate is not valid before", "pki/server.pem: the", "pki/admin.pem: the", "pki/front-proxy-ca.crt: the", "pki/front-proxy.pem: the"}},
		"near its end":                 {later: 2*year - 10*24*time.Hour, want: []string{"pki/server.pem: the certificate expires on", "pki/admin.pem: the", "pki/front-proxy.pem: the"}},
		"after its end":                {later: 2*year + time.Hour, want: []string{"pki/server.pem: the certificate expired on", "pki/admin.pem: the", "pki/front-proxy.pem: the"}},
		"modes":                        {modes: true, damage: mode("token", 0o604), want: []string{"pki/token: other users have access (mode -rw----r--)"}},
		"mode of a certificate":        {modes: true, damage: mode("ca.crt", 0o666), want: []string{"pki/ca.crt: other users have access"}},
		"mode of pki":                  {modes: true, damage: mode(".", 0o755), want: []string{"pki: other users have access"}},
		"mode of the data directory":   {modes: true, damage: mode("..", 0o770), want: []string{"data directory: other users can write to it"}},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.modes && runtime.GOOS == "windows" {
				t.Skip("Windows has no such modes")
			}
			data, dir := made(t)
			if tc.damage != nil {
				if err := tc.damage(dir); err != nil {
					t.Fatal(err)
				}
			}
			got := Examine(data, now.Add(tc.later))
			if len(got) != len(tc.want) {
				t.Fatalf("got %q, want %q", got, tc.want)
			}
			for i := range got {
				if !strings.HasPrefix(filepath.ToSlash(got[i]), tc.want[i]) {
					t.Errorf("got %q, want %q", got[i], tc.want[i])
				}
			}
		})
	}
	if got := Examine(t.TempDir(), now); len(got) != 0 {
		t.Errorf("without a pki: %q", got)
	}
}

// exchangeMerged writes certificate and key into one file, as earlier versions did: those of an
// authority, or those of the files given instead.
func exchangeMerged(from ...string) func(dir string) error {
	name := from[len(from)-1]
	return func(dir string) error {
		var all []byte
		sources := []string{name + ".crt", name + ".key"}
		if len(from) > 1 {
			sources = from[:1]
		}
		for _, source := range sources {
			data, err := os.ReadFile(filepath.Join(dir, source))
			if err != nil {
				return err
			}
			all = append(all, data...)
		}
		for _, ext := range []string{".crt", ".key"} {
			if err := os.Remove(filepath.Join(dir, name+ext)); err != nil {
				return err
			}
		}
		return os.WriteFile(filepath.Join(dir, name+".pem"), all, 0o600)
	}
}
