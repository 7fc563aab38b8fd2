package pki

import (
	"bytes"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// merged converts a directory to that of an earlier version, with the authorities' keys beside
// their certificates in NAME.pem.
func merged(t *testing.T, dir string, names ...string) {
	t.Helper()
	for _, name := range names {
		var all []byte
		for _, ext := range []string{".crt", ".key"} {
			data, err := os.ReadFile(filepath.Join(dir, name+ext))
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, data...)
			os.Remove(filepath.Join(dir, name+ext))
		}
		if err := os.WriteFile(filepath.Join(dir, name+".pem"), all, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return string(data)
}

// secrets returns the number of private keys in a file.
func secrets(data string) (n int) {
	for block, rest := pem.Decode([]byte(data)); block != nil; block, rest = pem.Decode(rest) {
		if strings.Contains(block.Type, "PRIVATE") {
			n++
		}
	}
	return n
}

// TestAuthorityFilesHoldNoKey checks that files for clients have no private key, and that only the
// owner can read files that have one.
func TestAuthorityFilesHoldNoKey(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	c, err := Open(dir, nil, []string{"localhost"}, now)
	if err != nil {
		t.Fatal(err)
	}
	f, err := OpenFrontProxy(dir, now)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]byte{"ca": c.AuthorityPEM(), "front-proxy-ca": f.AuthorityPEM()} {
		certificate, key := filepath.Join(dir, name+".crt"), filepath.Join(dir, name+".key")
		if got := read(t, certificate); got != string(want) || secrets(got) != 0 {
			t.Errorf("%s holds %d private keys:\n%s", certificate, secrets(got), got)
		}
		if got := read(t, key); secrets(got) != 1 || strings.Contains(got, "CERTIFICATE") {
			t.Errorf("%s holds %d private keys", key, secrets(got))
		}
		if _, err := tls.LoadX509KeyPair(certificate, key); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if runtime.GOOS == "windows" {
			continue
		}
		if info, err := os.Stat(key); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v", key, info.Mode(), err)
		}
	}
	if read(t, filepath.Join(dir, "ca.pem")) != "" {
		t.Error("ca.pem exists")
	}
}

// TestMigrationOfAuthorities opens the directory of an earlier version in each state in which a
// crash can leave the migration. The authority must stay the same, as clients trust it.
func TestMigrationOfAuthorities(t *testing.T) {
	now := time.Now()
	for name, halfway := range map[string]func(dir, certificate, key string) error{
		"not begun": func(string, string, string) error { return nil },
		"key written": func(dir, _, key string) error {
			return os.WriteFile(filepath.Join(dir, "ca.key"), []byte(key), 0o600)
		},
		"both written": func(dir, certificate, key string) error {
			return errors.Join(os.WriteFile(filepath.Join(dir, "ca.key"), []byte(key), 0o600),
				os.WriteFile(filepath.Join(dir, "ca.crt"), []byte(certificate), 0o600))
		},
		"temporary file left": func(dir, _, key string) error {
			return os.WriteFile(filepath.Join(dir, ".ca.key-123"), []byte(key[:20]), 0o600)
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			before, err := Open(dir, nil, nil, now)
			if err != nil {
				t.Fatal(err)
			}
			proxy, err := OpenFrontProxy(dir, now)
			if err != nil {
				t.Fatal(err)
			}
			certificate, key := read(t, filepath.Join(dir, "ca.crt")), read(t, filepath.Join(dir, "ca.key"))
			merged(t, dir, "ca", "front-proxy-ca")
			if err := halfway(dir, certificate, key); err != nil {
				t.Fatal(err)
			}
			// ReadAuthority, which changes nothing, reads both forms.
			if a, err := ReadAuthority(dir, now); err != nil || !bytes.Equal(a.pair.certPEM(), []byte(certificate)) {
				t.Errorf("before the migration: %v", err)
			}
			after, err := Open(dir, nil, nil, now)
			if err != nil {
				t.Fatal(err)
			}
			proxyAfter, err := OpenFrontProxy(dir, now)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(before.AuthorityPEM(), after.AuthorityPEM()) || !bytes.Equal(proxy.AuthorityPEM(), proxyAfter.AuthorityPEM()) {
				t.Error("the authority changed")
			}
			if !bytes.Equal(before.admin.certPEM(), after.admin.certPEM()) {
				t.Error("the admin's certificate changed")
			}
			for _, old := range []string{"ca.pem", "front-proxy-ca.pem"} {
				if read(t, filepath.Join(dir, old)) != "" {
					t.Errorf("%s still exists", old)
				}
			}
			if read(t, filepath.Join(dir, "ca.crt")) != certificate || read(t, filepath.Join(dir, "ca.key")) != key {
				t.Error("the files have other content")
			}
			if a, err := ReadAuthority(dir, now); err != nil || !bytes.Equal(a.pair.certPEM(), []byte(certificate)) {
				t.Errorf("after the migration: %v", err)
			}
		})
	}
}

// TestCrashWhileAnAuthorityIsReplaced checks that the key of a new authority without a certificate
// is replaced, without an error.
func TestCrashWhileAnAuthorityIsReplaced(t *testing.T) {
	dir, now := t.TempDir(), time.Now()
	first, err := Open(dir, nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := newAuthority(now)
	if err != nil {
		t.Fatal(err)
	}
	key, err := other.keyPEM()
	if err != nil {
		t.Fatal(err)
	}
	os.Remove(filepath.Join(dir, "ca.crt"))
	if err := WriteFile(filepath.Join(dir, "ca.key"), key); err != nil {
		t.Fatal(err)
	}
	second, err := Open(dir, nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	if bytes.Equal(first.AuthorityPEM(), second.AuthorityPEM()) || !second.admin.signedBy(second.authority) {
		t.Error("the authority is not new")
	}
	if third, err := Open(dir, nil, nil, now); err != nil || !bytes.Equal(second.AuthorityPEM(), third.AuthorityPEM()) {
		t.Errorf("the new authority is not kept: %v", err)
	}
}

// TestDamagedOldAuthority checks that a damaged authority is an error that names the file: a new
// authority would lock out all clients.
func TestDamagedOldAuthority(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ca.pem"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, nil, nil, time.Now()); err == nil || !strings.Contains(err.Error(), "ca.pem: it must have a certificate and an ECDSA key") {
		t.Errorf("got %v", err)
	}
}
