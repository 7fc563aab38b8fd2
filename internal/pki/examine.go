package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"k8s.io/client-go/util/keyutil"
)

// endsSoon is the remaining validity below which a certificate is a problem: a server renews its
// certificates long before.
const endsSoon = 30 * 24 * time.Hour

// Examine returns a line for each problem with the credentials in a data directory, and changes
// nothing. It reads every file of its directory pki, and checks that the file can be decoded, that
// keys belong to their certificates, that certificates are valid and signed by their authority, and
// that other users of the machine have no access. A directory without credentials is no problem:
// servers that share an etcd keep their authority there.
func Examine(dataDir string, now time.Time) []string {
	e := &examination{store: store{filepath.Join(dataDir, "pki")}, now: now}
	e.modes(dataDir)
	for _, set := range []struct {
		authority string
		signed    []string
	}{{"ca", []string{"server.pem", "admin.pem"}}, {"front-proxy-ca", []string{"front-proxy.pem"}}} {
		by := e.authority(set.authority)
		for _, name := range set.signed {
			e.signed(name, by)
		}
	}
	if data := e.read(SigningFile); data != nil {
		if _, err := keyutil.ParsePrivateKeyPEM(data); err != nil {
			e.problem(SigningFile, "%v", err)
		}
	}
	if data := e.read("token"); data != nil && strings.TrimSpace(string(data)) == "" {
		e.problem("token", "the file is empty: the next start of the server creates a new token")
	}
	return e.problems
}

type examination struct {
	store    store
	now      time.Time
	problems []string
}

// problem adds a problem with a file.
func (e *examination) problem(name, format string, args ...any) {
	e.problems = append(e.problems, filepath.Join("pki", name)+": "+fmt.Sprintf(format, args...))
}

// read returns the content of a file, or nil if it does not exist. It returns nil and adds a
// problem if the file cannot be read.
func (e *examination) read(name string) []byte {
	data, err := os.ReadFile(e.store.path(name))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		e.problem(name, "%v", err)
		return nil
	}
	return data
}

// modes adds the files and directories to which other users have access.
func (e *examination) modes(dataDir string) {
	if runtime.GOOS == "windows" { // which has no such modes
		return
	}
	if info, err := os.Stat(dataDir); err == nil && info.Mode().Perm()&0o022 != 0 {
		e.problems = append(e.problems, fmt.Sprintf("data directory: other users can write to it (mode %v): run chmod go-w", info.Mode()))
	}
	files, err := os.ReadDir(e.store.dir)
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			e.problems = append(e.problems, fmt.Sprintf("pki: %v", err))
		}
		return
	}
	if info, err := os.Stat(e.store.dir); err == nil && info.Mode().Perm()&0o077 != 0 {
		e.problems = append(e.problems, fmt.Sprintf("pki: other users have access (mode %v): run chmod go-rwx", info.Mode()))
	}
	for _, f := range files {
		others := fs.FileMode(0o077)
		if filepath.Ext(f.Name()) == ".crt" {
			others = 0o022 // any user may read certificates
		}
		if info, err := os.Stat(e.store.path(f.Name())); err == nil && info.Mode().Perm()&others != 0 {
			e.problem(f.Name(), "other users have access (mode %v)", info.Mode())
		}
	}
}

// authority examines the files of an authority. It returns nil if there is no usable one.
func (e *examination) authority(name string) *pair {
	certificate, key, both := e.read(name+".crt"), e.read(name+".key"), e.read(name+".pem")
	at, p := name+".crt", pair{}
	switch {
	case both != nil:
		merged, err := parsePair(both)
		if err == nil {
			at, p = name+".pem", merged
			e.problem(at, "the file has certificate and private key: the next start of the server splits it")
			break
		}
		if certificate == nil || key == nil {
			e.problem(name+".pem", "%v", err)
			return nil
		}
		fallthrough
	case certificate != nil && key != nil:
		c, err := parse(certificate)
		if err == nil && c.cert == nil {
			err = errNoCertificate
		}
		if err != nil {
			e.problem(at, "%v", err)
			return nil
		}
		k, err := parse(key)
		if err == nil && k.key == nil {
			err = errNoKey
		}
		if err != nil {
			e.problem(name+".key", "%v", err)
			return nil
		}
		p = pair{cert: c.cert, key: k.key}
		if err := p.match(); err != nil {
			e.problem(name+".key", "%v in %s", err, name+".crt")
			return nil
		}
	case certificate != nil:
		e.problem(name+".key", "the file is missing")
		return nil
	case key != nil:
		e.problem(name+".crt", "the file is missing: the next start of the server creates a new authority")
		return nil
	default:
		return nil
	}
	if !p.cert.IsCA {
		e.problem(at, "the certificate is not that of an authority")
	}
	e.holds(at, p)
	return &p
}

// signed examines a certificate with its key. by is the authority that must have signed it; nil
// skips that check.
func (e *examination) signed(name string, by *pair) {
	data := e.read(name)
	if data == nil {
		return
	}
	p, err := parsePair(data)
	if err != nil {
		e.problem(name, "%v", err)
		return
	}
	e.holds(name, p)
	if by != nil && !p.signedBy(*by) {
		e.problem(name, "the certificate is not signed by the authority: the next start of the server creates a new one")
	}
}

func (e *examination) holds(name string, p pair) {
	const day = time.DateOnly
	switch {
	case e.now.Before(p.cert.NotBefore):
		e.problem(name, "the certificate is not valid before %s", p.cert.NotBefore.UTC().Format(time.DateTime))
	case e.now.After(p.cert.NotAfter):
		e.problem(name, "the certificate expired on %s", p.cert.NotAfter.UTC().Format(day))
	case e.now.Add(endsSoon).After(p.cert.NotAfter):
		e.problem(name, "the certificate expires on %s", p.cert.NotAfter.UTC().Format(day))
	}
}
