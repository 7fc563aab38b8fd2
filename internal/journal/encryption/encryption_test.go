package encryption

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/object"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	clientscheme "k8s.io/client-go/kubernetes/scheme"
)

// secretOf returns a secret of n bytes that is derived from a name.
func secretOf(name string, n int) string {
	sum := sha256.Sum256([]byte(name))
	return base64.StdEncoding.EncodeToString(sum[:n])
}

// configOf returns the text of a configuration. A rule is "RESOURCES: PROVIDERS", with spaces
// between resources and providers. A provider is identity, or PROVIDER/KEYS with commas between the
// keys, or PROVIDER16/KEYS with secrets of 16 bytes. A key is NAME or NAME=SEED, with the secret
// that is derived from the seed. The provider of KMS is kms/NAME=PATH, with the path of its socket.
func configOf(rules ...string) string {
	var b strings.Builder
	b.WriteString("apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources:\n")
	for _, rule := range rules {
		resources, providers, _ := strings.Cut(rule, ": ")
		b.WriteString("- resources:\n")
		for _, r := range strings.Fields(resources) {
			fmt.Fprintf(&b, "  - %q\n", r)
		}
		b.WriteString("  providers:\n")
		for _, p := range strings.Fields(providers) {
			p, keys, _ := strings.Cut(p, "/")
			size := 32
			for _, n := range []int{16, 24} {
				if cut, ok := strings.CutSuffix(p, fmt.Sprint(n)); ok {
					p, size = cut, n
				}
			}
			if p == "identity" {
				b.WriteString("  - identity: {}\n")
				continue
			}
			if p == "kms" {
				name, path, _ := strings.Cut(keys, "=")
				fmt.Fprintf(&b, "  - kms: {apiVersion: v2, name: %q, endpoint: %q}\n", name, "unix://"+path)
				continue
			}
			fmt.Fprintf(&b, "  - %s:\n      keys:\n", p)
			for _, key := range strings.Split(keys, ",") {
				name, seed, ok := strings.Cut(key, "=")
				if !ok {
					seed = name
				}
				fmt.Fprintf(&b, "      - name: %q\n        secret: %s\n", name, secretOf(seed, size))
			}
		}
	}
	return b.String()
}

// file writes the text of a configuration to a file.
func file(t testing.TB, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "encryption.yaml")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// testPaths are the paths of the built-in kinds in the tests.
var testPaths = object.NewPaths([]object.Place{
	{Resource: keyOf("secrets", "", "").Resource, Path: "secrets"},
	{Resource: keyOf("configmaps", "", "").Resource, Path: "configmaps"},
	{Resource: keyOf("pods", "", "").Resource, Path: "pods"},
	{Resource: keyOf("nodes", "", "").Resource, Path: "minions"},
	{Resource: keyOf("services", "", "").Resource, Path: "services/specs"},
	{Resource: keyOf("deployments.apps", "", "").Resource, Path: "deployments"},
})

func mustLoad(t testing.TB, rules ...string) *Config {
	t.Helper()
	c, err := loadFile(t, file(t, configOf(rules...)))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// loadFile loads a configuration, which is closed at the end of the test.
func loadFile(t testing.TB, name string) (*Config, error) {
	t.Helper()
	c, err := Load(t.Context(), name, testPaths, slog.New(slog.DiscardHandler))
	if err == nil {
		t.Cleanup(c.Close)
	}
	return c, err
}

func keyOf(resource, namespace, name string) object.Key {
	return object.Key{Resource: schema.ParseGroupResource(resource), Namespace: namespace, Name: name}
}

// objectOf returns an object as a journal stores it.
func objectOf(key object.Key, payload string) []byte {
	namespace := ""
	if key.Namespace != "" {
		namespace = fmt.Sprintf(`,"namespace":%q`, key.Namespace)
	}
	return fmt.Appendf(nil, `{"apiVersion":"v1","data":{"value":%q},"kind":"Secret","metadata":{"name":%q%s}}`, payload, key.Name, namespace)
}

var secret = keyOf("secrets", "default", "token")

// everyProvider has each provider with each size of keys.
var everyProvider = []string{
	"aesgcm16/k", "aesgcm24/k", "aesgcm/k", "aescbc16/k", "aescbc24/k", "aescbc/k", "secretbox/k",
}

func TestProviders(t *testing.T) {
	for _, provider := range everyProvider {
		t.Run(provider, func(t *testing.T) {
			c := mustLoad(t, "secrets: "+provider)
			name := strings.TrimRight(strings.TrimSuffix(provider, "/k"), "1246")
			for _, payload := range []string{"", "x", strings.Repeat("fibre ", 300)} {
				raw := objectOf(secret, payload)
				before := bytes.Clone(raw)
				one, err := c.Seal(secret, raw)
				if err != nil {
					t.Fatal(err)
				}
				if want := "k8s:enc:" + name + ":v1:k:"; !bytes.HasPrefix(one, []byte(want)) {
					t.Errorf("stored %.40q, want it to begin with %s", one, want)
				}
				if bytes.Contains(one, []byte("metadata")) {
					t.Error("the stored bytes contain the object")
				}
				two, err := c.Seal(secret, raw)
				if err != nil {
					t.Fatal(err)
				}
				if bytes.Equal(one, two) {
					t.Error("two encryptions of an object are equal")
				}
				stored := bytes.Clone(one)
				got, stale, err := c.Open(secret, one)
				if err != nil || stale || !bytes.Equal(got, raw) {
					t.Errorf("opened %.60q, stale %v, %v", got, stale, err)
				}
				if !bytes.Equal(one, stored) || !bytes.Equal(raw, before) {
					t.Error("an argument was changed")
				}
			}
		})
	}
}

func TestNotEncrypted(t *testing.T) {
	c := mustLoad(t, "secrets: aesgcm/k", "configmaps: identity")
	for _, resource := range []string{"pods", "configmaps", "secrets.example.com"} {
		key := keyOf(resource, "default", "a")
		raw := objectOf(key, "plain")
		stored, err := c.Seal(key, raw)
		if err != nil || !bytes.Equal(stored, raw) {
			t.Errorf("%s stored as %.60q, %v", resource, stored, err)
		}
		if got, stale, err := c.Open(key, stored); err != nil || stale || !bytes.Equal(got, raw) {
			t.Errorf("%s opened as %.60q, stale %v, %v", resource, got, stale, err)
		}
		if got, _, err := c.Open(key, []byte("k8s:enc:aesgcm:v1:k:ciphertext")); err == nil {
			t.Errorf("%s read as %q", resource, got)
		}
	}
}

func TestResources(t *testing.T) {
	c := mustLoad(t,
		"events: identity",
		"secrets configmaps pandas.bears.example: aescbc/one",
		"*.apps: aesgcm/two",
		"*.: secretbox/three",
		"widgets.factory.example: secretbox/first",
		"widgets.factory.example: aesgcm/second identity",
		"*.*: aesgcm/four",
	)
	for resource, want := range map[string]string{
		"events":                        "",
		"secrets":                       "k8s:enc:aescbc:v1:one:",
		"configmaps":                    "k8s:enc:aescbc:v1:one:",
		"pandas.bears.example":          "k8s:enc:aescbc:v1:one:",
		"deployments.apps":              "k8s:enc:aesgcm:v1:two:",
		"pods":                          "k8s:enc:secretbox:v1:three:",
		"widgets.factory.example":       "k8s:enc:secretbox:v1:first:",
		"polars.bears.example":          "k8s:enc:aesgcm:v1:four:",
		"secrets.other.example":         "k8s:enc:aesgcm:v1:four:",
		"things.apps.other.example":     "k8s:enc:aesgcm:v1:four:",
		"jobs.batch":                    "k8s:enc:aesgcm:v1:four:",
		"customresourcedefinitions.abc": "k8s:enc:aesgcm:v1:four:",
	} {
		key := keyOf(resource, "default", "a")
		stored, err := c.Seal(key, objectOf(key, ""))
		if got := headerOf(stored); err != nil || got != want {
			t.Errorf("%s is stored with %q, want %q (%v)", resource, got, want, err)
		}
	}

	// All rules of a kind decrypt what one of them has encrypted.
	widget := keyOf("widgets.factory.example", "default", "a")
	stored, err := mustLoad(t, "widgets.factory.example: aesgcm/second").Seal(widget, objectOf(widget, ""))
	if err != nil {
		t.Fatal(err)
	}
	if _, stale, err := c.Open(widget, stored); err != nil || !stale {
		t.Errorf("a key of the second rule: stale %v, %v", stale, err)
	}
}

func TestRotation(t *testing.T) {
	const fails = "fails"
	for _, test := range []struct{ written, read, want string }{
		{"", "aescbc/a identity", "stale"},
		{"", "identity aescbc/a", "fresh"},
		{"", "aescbc/a", fails},
		{"aescbc/a", "aescbc/a identity", "fresh"},
		{"aescbc/a", "aescbc/b,a", "stale"},
		{"aescbc/a", "aescbc/b aescbc/a", "stale"},
		{"aescbc/a", "aescbc/a,b", "fresh"},
		{"aescbc/a", "aescbc/b", fails},
		{"aescbc/a", "identity", fails},
		{"aescbc/a", "identity aescbc/a", "stale"},
		{"aescbc/a", "secretbox/a aescbc/a", "stale"},
		{"aescbc/a", "aesgcm/a", fails},
		{"aesgcm/a", "aesgcm/b,a identity", "stale"},
		{"aesgcm/a", "aescbc/a secretbox/a", fails},
		{"secretbox/a", "aesgcm/a secretbox/b,a", "stale"},
		{"secretbox/a", "aesgcm/a secretbox/b", fails},
		// Another secret under the same name.
		{"aescbc/a", "aescbc/a=other", fails},
		{"aesgcm/a", "aesgcm/a=other", fails},
		{"secretbox/a", "secretbox/a=other", fails},
		{"aescbc/a", "aescbc/a=other,a", "stale"},
		{"aesgcm/a", "aesgcm/a=other aesgcm/a", "stale"},
		{"secretbox/a", "secretbox/a=other,a=another,a", "stale"},
		// A name that begins with another one.
		{"aesgcm/a:b", "aesgcm/a,a:b", "stale"},
		{"aesgcm/a:b", "aesgcm/a", fails},
		{"aescbc/ab", "aescbc/a,b", fails},
		{"aescbc16/a", "aescbc/b aescbc16/a", "stale"},
	} {
		t.Run(test.written+" then "+test.read, func(t *testing.T) {
			raw := objectOf(secret, "value")
			stored := raw
			if test.written != "" {
				var err error
				if stored, err = mustLoad(t, "secrets: "+test.written).Seal(secret, raw); err != nil {
					t.Fatal(err)
				}
			}
			c := mustLoad(t, "secrets: "+test.read)
			got, stale, err := c.Open(secret, stored)
			switch {
			case test.want == fails:
				var unopened *UnopenedError
				if !errors.As(err, &unopened) || got != nil {
					t.Errorf("opened %.60q, %v", got, err)
				}
			case err != nil || !bytes.Equal(got, raw) || stale != (test.want == "stale"):
				t.Errorf("opened %.60q, stale %v, %v; want it to be %s", got, stale, err, test.want)
			}
		})
	}
}

// TestWrongKeyNeverYieldsNoise checks aescbc, where one wrong key of 256 decrypts to random bytes:
// these must neither be returned as the object, nor hide the right key after it.
func TestWrongKeyNeverYieldsNoise(t *testing.T) {
	writes := mustLoad(t, "secrets: aescbc/a")
	wrong := mustLoad(t, "secrets: aescbc/a=other")
	both := mustLoad(t, "secrets: aescbc/a=other,a")
	raw := objectOf(secret, "value")
	for range 5000 {
		stored, err := writes.Seal(secret, raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, _, err := wrong.Open(secret, stored); err == nil {
			t.Fatalf("opened %q with a wrong key", got)
		}
		if got, stale, err := both.Open(secret, stored); err != nil || !stale || !bytes.Equal(got, raw) {
			t.Fatalf("opened %q, stale %v, %v", got, stale, err)
		}
	}
}

func TestMoved(t *testing.T) {
	elsewhere := []object.Key{
		keyOf("secrets", "default", "token2"),
		keyOf("secrets", "kube-system", "token"),
		keyOf("secrets", "", "token"),
		keyOf("secrets", "token", "default"),
	}
	for _, provider := range everyProvider {
		c := mustLoad(t, "*.*: "+provider)
		stored, err := c.Seal(secret, objectOf(secret, "value"))
		if err != nil {
			t.Fatal(err)
		}
		for _, key := range elsewhere {
			if got, _, err := c.Open(key, stored); err == nil {
				t.Errorf("%s: moved to %s, it is decrypted as %q", provider, key, got)
			} else if !strings.Contains(err.Error(), Registry+testPaths.Of(key)) {
				t.Errorf("%s: the error does not name the path: %v", provider, err)
			}
		}
	}
	// Only AES-GCM detects these.
	c := mustLoad(t, "*.*: aesgcm/k")
	stored, err := c.Seal(secret, objectOf(secret, "value"))
	if err != nil {
		t.Fatal(err)
	}
	if got, _, err := c.Open(keyOf("configmaps", "default", "token"), stored); err == nil {
		t.Errorf("as another kind, it is decrypted as %q", got)
	}
	if got, _, err := c.Under("/other").Open(secret, stored); err == nil {
		t.Errorf("under another prefix, it is decrypted as %q", got)
	}
}

func TestUnder(t *testing.T) {
	c := mustLoad(t, "secrets: aesgcm/k")
	raw := objectOf(secret, "value")
	for _, same := range [][]string{{"/registry", "registry", "/registry/"}, {"kapok", "/kapok/", "//kapok"}, {"", "/"}, {"/a/b", "a/b/"}} {
		stored, err := c.Under(same[0]).Seal(secret, raw)
		if err != nil {
			t.Fatal(err)
		}
		for _, prefix := range same {
			if got, stale, err := c.Under(prefix).Open(secret, stored); err != nil || stale || !bytes.Equal(got, raw) {
				t.Errorf("sealed under %q, opened under %q: %q, %v, %v", same[0], prefix, got, stale, err)
			}
		}
		_, _, err = c.Open(secret, stored)
		if isDefault := same[0] == Registry; isDefault != (err == nil) {
			t.Errorf("sealed under %q, opened under %s: %v", same[0], Registry, err)
		}
	}
}

func TestChanged(t *testing.T) {
	for _, provider := range everyProvider {
		c := mustLoad(t, "secrets: "+provider+" identity")
		raw := objectOf(secret, strings.Repeat("value", 10))
		stored, err := c.Seal(secret, raw)
		if err != nil {
			t.Fatal(err)
		}
		for n := range stored { // truncated
			if got, _, err := c.Open(secret, stored[:n]); err == nil && !bytes.Equal(got, stored[:n]) {
				t.Fatalf("%s: truncated from %d to %d bytes, it is decrypted as %q", provider, len(stored), n, got)
			} else if err == nil && n >= len(reserved) {
				t.Fatalf("%s: truncated from %d to %d bytes, it is returned as it is", provider, len(stored), n)
			}
		}
		for bit := len(reserved) * 8; bit < len(stored)*8; bit++ {
			changed := bytes.Clone(stored)
			changed[bit/8] ^= 1 << (bit % 8)
			got, _, err := c.Open(secret, changed)
			switch {
			case err != nil:
			case !strings.HasPrefix(provider, aescbc):
				t.Fatalf("%s: with bit %d changed, it is decrypted as %q", provider, bit, got)
			case !belongs(secret, got):
				t.Fatalf("%s: with bit %d changed, random bytes are returned: %q", provider, bit, got)
			}
		}
	}
}

// TestOtherEncodings checks the protobuf that kube-apiserver stores for built-in kinds, and other
// JSON.
func TestOtherEncodings(t *testing.T) {
	serializer := protobuf.NewSerializer(clientscheme.Scheme, clientscheme.Scheme)
	var b bytes.Buffer
	err := serializer.Encode(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: secret.Name, Namespace: secret.Namespace, Labels: map[string]string{"a": "b"}},
		Data:       map[string][]byte{"value": []byte("value")},
	}, &b)
	if err != nil {
		t.Fatal(err)
	}
	for _, provider := range everyProvider {
		c := mustLoad(t, "secrets: "+provider)
		for name, raw := range map[string][]byte{
			"protobuf":      b.Bytes(),
			"indented JSON": []byte("{\n \"metadata\": {\"namespace\": \"default\", \"name\": \"tok\\u0065n\"}\n}\n"),
		} {
			stored, err := c.Seal(secret, raw)
			if err != nil {
				t.Fatal(err)
			}
			if got, _, err := c.Open(secret, stored); err != nil || !bytes.Equal(got, raw) {
				t.Errorf("%s, %s: opened %q, %v", provider, name, got, err)
			}
			if _, _, err := c.Open(keyOf("secrets", "default", "other"), stored); err == nil {
				t.Errorf("%s, %s: opened under another key", provider, name)
			}
		}
	}
}

func TestBelongs(t *testing.T) {
	for raw, want := range map[string]bool{
		`{"metadata":{"name":"token","namespace":"default"}}`:                                      true,
		`{"metadata":{"name":"token","namespace":"default"},"Metadata":{"name":"x"}}`:              true,
		`{"Metadata":{"name":"token","namespace":"default"}}`:                                      false,
		`{"metadata":{"Name":"token","namespace":"default"}}`:                                      false,
		`{"metadata":{"name":"token"}}`:                                                            false,
		`{"metadata":{"name":"token","namespace":"other"}}`:                                        false,
		`{"metadata":{"name":"token","namespace":"default"}`:                                       false,
		`{"metadata":{"name":1,"namespace":"default"}}`:                                            false,
		`{"spec":{"metadata":{"name":"token","namespace":"default"}}}`:                             false,
		`{"metadata":{"ownerReferences":[{"name":"token"}],"name":"other","namespace":"default"}}`: false,
		`["metadata"]`: false,
		`null`:         false,
		``:             false,
		"k8s\x00":      false,
		"k8s\x00\xff":  false,
	} {
		if got := belongs(secret, []byte(raw)); got != want {
			t.Errorf("%q belongs: %v, want %v", raw, got, want)
		}
	}
	if one := keyOf("secrets", "", "1"); belongs(one, []byte(`{"metadata":{"name":[1]}}`)) || !belongs(one, objectOf(one, "")) {
		t.Error("a name that is not a string is accepted, or one that is a string is not")
	}
	// The server's own JSON takes the fast path.
	for _, key := range []object.Key{secret, keyOf("nodes", "", "a"), keyOf("clusterroles", "", "system:node")} {
		if !plainly(key, objectOf(key, `quotes " and \ and \"`)) {
			t.Errorf("%s does not take the fast path", key)
		}
	}
}
