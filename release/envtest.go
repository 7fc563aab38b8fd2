package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/kapok-dev/kapok/release/internal/archive"
)

const (
	// envtestVersion is the release of Kubernetes that setup-envtest gets when it asks for 1.37.
	envtestVersion = "v1.37.0"
	envtestIndex   = "envtest-releases.yaml"
)

// writeEnvtest writes the archives that setup-envtest unpacks, and their index. Each has the
// program three times, under the names that envtest runs: setup-envtest skips links.
func (r *release) writeEnvtest(context.Context) error {
	var index strings.Builder
	fmt.Fprintf(&index, "releases:\n  %s:\n", envtestVersion)
	for _, b := range r.binaries {
		var files []archive.File
		for _, program := range []string{"etcd", "kube-apiserver", "kubectl"} {
			files = append(files, archive.File{Name: "controller-tools/envtest/" + program + b.exe(), Mode: 0o755, Path: b.path})
		}
		name := "envtest-" + envtestVersion + "-" + b.os + "-" + b.arch + ".tar.gz"
		if err := archive.Create(filepath.Join(r.dist, name), archive.TarGz, r.time, files); err != nil {
			return err
		}
		sum, err := r.sha512(name)
		if err != nil {
			return err
		}
		fmt.Fprintf(&index, "    %s:\n      hash: %s\n      selfLink: %s/%s\n", name, sum, r.baseURL, name)
	}
	return r.write(envtestIndex, 0o644, []byte(index.String()))
}
