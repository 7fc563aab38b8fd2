package main

import (
	"context"
	"crypto/sha256"

	"github.com/kapok-dev/kapok/release/internal/sbom"
)

// writeBills writes a software bill of materials for each binary.
func (r *release) writeBills(context.Context) error {
	for _, b := range r.binaries {
		sum, err := digest(sha256.New(), b.path)
		if err != nil {
			return err
		}
		document, err := sbom.Read(b.path, sbom.Subject{
			Name: r.name(b.target), File: "kapok" + b.exe(), Version: r.version, SHA256: sum, License: "Apache-2.0",
			Repository: repository, Commit: r.commit, Supplier: authors, Time: r.time,
		})
		if err != nil {
			return err
		}
		data, err := document.JSON()
		if err != nil {
			return err
		}
		if err := r.write(r.name(b.target)+".spdx.json", 0o644, data); err != nil {
			return err
		}
	}
	return nil
}
