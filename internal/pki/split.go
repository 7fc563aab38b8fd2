package pki

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// The certificate of an authority is in NAME.crt, its key in NAME.key. Earlier versions kept both
// in NAME.pem.
//
// Two files cannot be replaced atomically. The certificate is therefore the sign that both are
// complete: it is removed before the key is replaced, and written after it. A key without a
// certificate is left by a crash, and is replaced. NAME.pem is removed last, when both files have
// its content; as long as it exists it counts, and both are written again.

// authority reads an authority. If there is none, or good rejects it, it creates and stores a new
// one.
func (s store) authority(name string, good func(pair) bool, make func() (pair, error)) (pair, error) {
	p, old, err := s.findAuthority(name)
	if err != nil {
		return pair{}, err
	}
	if old {
		if err := s.split(name, *p); err != nil {
			return pair{}, err
		}
		if err := os.Remove(s.path(name + ".pem")); err != nil {
			return pair{}, err
		}
		if err := syncDir(s.dir); err != nil {
			return pair{}, err
		}
	}
	if p != nil && good(*p) {
		return *p, nil
	}
	made, err := make()
	if err != nil {
		return pair{}, err
	}
	return made, s.split(name, made)
}

// findAuthority reads an authority; nil if there is none. old reports that it is in the file of
// earlier versions.
func (s store) findAuthority(name string) (p *pair, old bool, err error) {
	certificate, err := s.read(name + ".crt")
	if err != nil {
		return nil, false, err
	}
	key, err := s.read(name + ".key")
	if err != nil {
		return nil, false, err
	}
	both, err := s.read(name + ".pem")
	if err != nil {
		return nil, false, err
	}
	if both != nil {
		p, err := parsePair(both)
		if err == nil {
			return &p, true, nil
		}
		if certificate == nil || key == nil {
			return nil, false, s.bad(name+".pem", err)
		}
		// NAME.pem is no authority: perhaps a copy of the certificate for programs that read the
		// old name.
	}
	if certificate == nil {
		return nil, false, nil
	}
	if key == nil {
		return nil, false, fmt.Errorf("the key of %s is missing: restore %s, or remove the certificate to create a new authority",
			s.path(name+".crt"), name+".key")
	}
	c, err := parse(certificate)
	if err == nil && c.cert == nil {
		err = errNoCertificate
	}
	if err != nil {
		return nil, false, s.bad(name+".crt", err)
	}
	k, err := parse(key)
	if err == nil && k.key == nil {
		err = errNoKey
	}
	if err != nil {
		return nil, false, s.bad(name+".key", err)
	}
	whole := pair{cert: c.cert, key: k.key}
	if err := whole.match(); err != nil {
		return nil, false, s.bad(name+".key", fmt.Errorf("%w in %s", err, name+".crt"))
	}
	return &whole, false, nil
}

var (
	errNoCertificate = errors.New("no certificate in PEM")
	errNoKey         = errors.New("no ECDSA key in PEM")
)

// bad wraps the error of a file that cannot be used.
func (s store) bad(name string, err error) error {
	if filepath.Ext(name) == ".key" {
		return fmt.Errorf("%s: %w (remove key and certificate, which may be damaged, to create a new authority)", s.path(name), err)
	}
	return fmt.Errorf("%s: %w (remove the file, which is damaged, to create a new one)", s.path(name), err)
}

func (s store) path(name string) string { return filepath.Join(s.dir, name) }

// split writes an authority to its two files.
func (s store) split(name string, p pair) error {
	if s.dir == "" {
		return nil
	}
	key, err := p.keyPEM()
	if err != nil {
		return err
	}
	err = os.Remove(s.path(name + ".crt"))
	if err == nil {
		err = syncDir(s.dir)
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := s.write(name+".key", key); err != nil {
		return err
	}
	return writeFile(s.path(name+".crt"), p.certPEM(), 0o644)
}
