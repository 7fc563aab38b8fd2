package console

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "record the sources that dist is built from")

// TestBuilt checks that dist was built from the sources in web. The section console of .ci/run
// builds it again, and compares the files.
func TestBuilt(t *testing.T) {
	h := sha256.New()
	for _, dir := range []string{"web", "dist"} {
		err := filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case d.IsDir() && d.Name() == "node_modules":
				return fs.SkipDir
			case d.IsDir():
				return nil
			}
			data, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			sum := sha256.Sum256(data)
			_, err = h.Write([]byte(filepath.ToSlash(name) + " " + hex.EncodeToString(sum[:]) + "\n"))
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	got := hex.EncodeToString(h.Sum(nil))
	if *rewrite {
		if err := os.WriteFile("dist.sum", []byte(got+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile("dist.sum")
	if err != nil {
		t.Fatal(err)
	}
	if got != strings.TrimSpace(string(want)) {
		t.Error("web or dist has changed since dist was built: in web, npm ci && npm run build; then go test ./console -run TestBuilt -rewrite")
	}
}
