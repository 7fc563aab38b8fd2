package main

import (
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// checksumsName is the file with the checksums of all other files.
const checksumsName = "checksums.txt"

// writeChecksums writes the checksums in the form that sha256sum --check reads.
func (r *release) writeChecksums(context.Context) error {
	names, err := r.released()
	if err != nil {
		return err
	}
	var b strings.Builder
	for _, name := range names {
		sum, err := r.sha256(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&b, "%s  %s\n", sum, name)
	}
	return r.write(checksumsName, 0o644, []byte(b.String()))
}

// sha256 returns the checksum of a released file.
func (r *release) sha256(name string) (string, error) {
	return digest(sha256.New(), filepath.Join(r.dist, filepath.FromSlash(name)))
}

// sha512 returns the checksum that setup-envtest compares.
func (r *release) sha512(name string) (string, error) {
	return digest(sha512.New(), filepath.Join(r.dist, filepath.FromSlash(name)))
}

func digest(h hash.Hash, path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if _, err := io.Copy(h, f); err != nil {
		return "", fmt.Errorf("read %s: %w", path, err)
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
