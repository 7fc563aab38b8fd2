package main

import (
	"archive/tar"
	"crypto/sha512"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"sigs.k8s.io/controller-runtime/tools/setup-envtest/remote"
	"sigs.k8s.io/yaml"
)

// testEnvtest reads the index with the type of setup-envtest, and looks into an archive.
func testEnvtest(t *testing.T, r *release) {
	var index remote.Index
	if err := yaml.UnmarshalStrict([]byte(read(t, r, envtestIndex)), &index); err != nil {
		t.Fatal(err)
	}
	archives := index.Releases["v1.37.0"]
	if len(index.Releases) != 1 || len(archives) != 6 {
		t.Errorf("index %v", index)
	}
	for name, a := range archives {
		sum, err := digest(sha512.New(), filepath.Join(r.dist, name))
		if err != nil || a.Hash != sum || a.SelfLink != r.baseURL+"/"+name {
			t.Errorf("%s: %v, error %v, want the hash %s", name, a, err, sum)
		}
		if raw, err := hex.DecodeString(a.Hash); err != nil || len(raw) != sha512.Size {
			t.Errorf("%s: hash %q", name, a.Hash)
		}
	}
	want := []string{"controller-tools/envtest/etcd.exe", "controller-tools/envtest/kube-apiserver.exe", "controller-tools/envtest/kubectl.exe"}
	if got := entries(t, filepath.Join(r.dist, "envtest-v1.37.0-windows-arm64.tar.gz")); !slices.Equal(got, want) {
		t.Errorf("files %q, want %q", got, want)
	}
}

// entries returns the names of the regular files of an archive: setup-envtest skips all others.
func entries(t *testing.T, path string) (names []string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg && h.Mode == 0o755 {
			names = append(names, h.Name)
		}
	}
}

// TestEnvtestVersion compares the version of the assets with that of the API that kapok serves.
func TestEnvtestVersion(t *testing.T) {
	source, err := os.ReadFile(filepath.Join("..", "cmd", "kapok", "version.go"))
	if err != nil {
		t.Fatal(err)
	}
	minor := strings.TrimSuffix(strings.TrimPrefix(envtestVersion, "v"), ".0")
	if want := "\nconst kubernetesAPI = \"" + minor + "\"\n"; !strings.Contains(string(source), want) {
		t.Errorf("envtestVersion is %s, and cmd/kapok/version.go has no line%s", envtestVersion, want)
	}
}
