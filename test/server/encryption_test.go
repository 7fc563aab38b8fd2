package server_test

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok"
)

// sealedSecret is a secret whose value is easy to find in a file.
const sealedSecret = `{"apiVersion":"v1","kind":"Secret","metadata":{"name":%q},"data":{"value":"UExBSU5URVhUUExBSU5URVhU"}}`

// encryptionOf writes a configuration for secrets. A provider is identity or PROVIDER/KEY; the
// first one encrypts.
func encryptionOf(t *testing.T, providers ...string) string {
	t.Helper()
	text := "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n" +
		"resources:\n- resources: [secrets]\n  providers:\n"
	for _, p := range providers {
		name, key, ok := strings.Cut(p, "/")
		if !ok {
			text += "  - identity: {}\n"
			continue
		}
		sum := sha256.Sum256([]byte(key))
		text += fmt.Sprintf("  - %s: {keys: [{name: %s, secret: %s}]}\n", name, key, base64.StdEncoding.EncodeToString(sum[:]))
	}
	name := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// stored counts the occurrences of a text in the files of a data directory.
func stored(t *testing.T, dir, text string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := os.ReadFile(path)
		n += bytes.Count(data, []byte(text))
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

var resourceVersion = regexp.MustCompile(`"resourceVersion":"(\d+)"`)

// TestEncryptionAtRest starts servers on one data directory, each with the next configuration of a
// rotation: off, on, another key, off.
func TestEncryptionAtRest(t *testing.T) {
	const secrets = "/api/v1/namespaces/default/secrets"
	dir := t.TempDir()
	run := func(config string, use func(r *raw)) {
		t.Helper()
		r := startRaw(t, kapok.Options{DataDir: dir, EncryptionConfig: config})
		use(r)
		if err := r.server.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	// rewrite writes an object back without changes, and reports whether that was a write.
	rewrite := func(r *raw, name string) bool {
		t.Helper()
		before := r.must(200, "GET", secrets+"/"+name, "")
		after := r.must(200, "PUT", secrets+"/"+name, before)
		was, is := resourceVersion.FindString(before), resourceVersion.FindString(after)
		if strings.Replace(before, was, is, 1) != after {
			t.Errorf("%s was changed:\n%s\n%s", name, before, after)
		}
		return was != is
	}
	names := []string{"never"}
	for _, step := range []struct {
		name      string
		providers []string
		header    string // of what this step writes
	}{
		{"on", []string{"aescbc/one", "identity"}, "k8s:enc:aescbc:v1:one:"},
		{"second key", []string{"aesgcm/two", "aescbc/one", "identity"}, "k8s:enc:aesgcm:v1:two:"},
		{"third key", []string{"secretbox/three", "aesgcm/two", "aescbc/one", "identity"}, "k8s:enc:secretbox:v1:three:"},
		{"off", []string{"identity", "secretbox/three", "aesgcm/two", "aescbc/one"}, ""},
	} {
		if step.name == "on" {
			run("", func(r *raw) { r.must(201, "POST", secrets, fmt.Sprintf(sealedSecret, "never")) })
			if stored(t, dir, "UExBSU5URVhUUExBSU5URVhU") == 0 {
				t.Fatal("unencrypted text is not found in the files: this test would detect nothing")
			}
		}
		plain := stored(t, dir, "UExBSU5URVhUUExBSU5URVhU")
		run(encryptionOf(t, step.providers...), func(r *raw) {
			for _, name := range names {
				if text := r.must(200, "GET", secrets+"/"+name, ""); !strings.Contains(text, "UExBSU5URVhUUExBSU5URVhU") {
					t.Errorf("%s: %s is %s", step.name, name, text)
				}
			}
			name := "made-" + strings.ReplaceAll(step.name, " ", "-")
			r.must(201, "POST", secrets, fmt.Sprintf(sealedSecret, name))
			if rewrite(r, name) {
				t.Errorf("%s: a fresh object was written again", step.name)
			}
			for _, name := range names {
				if !rewrite(r, name) {
					t.Errorf("%s: %s is stale, and was not written again", step.name, name)
				}
				if rewrite(r, name) {
					t.Errorf("%s: %s was written twice", step.name, name)
				}
			}
			names = append(names, name)
		})
		if step.header != "" {
			if n := stored(t, dir, step.header); n < len(names) {
				t.Errorf("%s: %s occurs %d times in the files, for %d objects", step.name, step.header, n, len(names))
			}
			if n := stored(t, dir, "UExBSU5URVhUUExBSU5URVhU"); n > plain {
				t.Errorf("%s: the plain text occurs %d times in the files, and %d times before", step.name, n, plain)
			}
		}
	}

	// Without the keys the server does not start, and nothing is lost.
	for _, wrong := range []struct{ config, want string }{
		{"", "is encrypted"},
		{encryptionOf(t, "identity", "secretbox/three", "aesgcm/two"), `is encrypted with aescbc key "one"`},
		{encryptionOf(t, "secretbox/three", "aesgcm/two", "aescbc/one"), "is stored unencrypted"},
	} {
		if server, err := kapok.Start(t.Context(), kapok.Options{DataDir: dir, EncryptionConfig: wrong.config}); err == nil {
			server.Stop()
			t.Errorf("a server starts without %s", wrong.want)
		} else if text := err.Error(); !strings.Contains(text, wrong.want) || !strings.Contains(text, "secrets/default/") {
			t.Errorf("got  %v\nwant ... %s", err, wrong.want)
		}
	}
	run(encryptionOf(t, "identity", "secretbox/three", "aesgcm/two", "aescbc/one"), func(r *raw) {
		list := r.must(200, "GET", secrets, "")
		for _, name := range names {
			if !strings.Contains(list, fmt.Sprintf(`"name":%q`, name)) {
				t.Errorf("%s is gone", name)
			}
		}
	})
}
