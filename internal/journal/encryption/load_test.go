package encryption

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	// The judge logs values that it cannot decrypt.
	klog.SetLogger(klog.Logger{})
	goleak.VerifyTestMain(m)
}

const head = "apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\n"

// rule returns a configuration with one rule for secrets and the given providers.
func rule(providers string) string {
	return head + "resources:\n- resources: [secrets]\n  providers:\n" + providers
}

// forResources returns a configuration with one rule for the given resources.
func forResources(list string) string {
	return head + "resources:\n- resources: " + list + "\n  providers:\n  - identity: {}\n"
}

// kmsRule returns a configuration with a KMS provider, with one field set.
func kmsRule(with string) string {
	fields := []string{with}
	for _, f := range []string{"apiVersion: v2", "name: vault", "endpoint: 'unix:///run/kms.sock'"} {
		if name, _, _ := strings.Cut(f, ":"); !strings.HasPrefix(with, name+":") {
			fields = append(fields, f)
		}
	}
	return rule("  - kms: {" + strings.Join(fields, ", ") + "}\n")
}

// refused are configurations that Kapok and the judge reject with the same messages.
var refused = []struct{ name, text, want string }{
	{"no YAML", "a: [", `did not find expected`},
	{"text", "hello", `cannot unmarshal string`},
	{"a list", "- a", `cannot unmarshal array`},
	{"no kind", "apiVersion: apiserver.config.k8s.io/v1\n", `Object 'Kind' is missing`},
	{"no apiVersion", "kind: EncryptionConfiguration\n", `Object 'apiVersion' is missing`},
	{"unknown kind", "apiVersion: apiserver.config.k8s.io/v1\nkind: Secret\n", `no kind "Secret" is registered for version "apiserver.config.k8s.io/v1"`},
	{"unknown version", "apiVersion: apiserver.config.k8s.io/v7\nkind: EncryptionConfiguration\n", `no kind "EncryptionConfiguration" is registered for version "apiserver.config.k8s.io/v7"`},
	{"another kind of the group", "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\n", `got unexpected config type: apiserver.config.k8s.io/v1, Kind=AdmissionConfiguration`},
	{"unknown field", rule("  - identity: {}\n    extra: 1\n"), `strict decoding error: unknown field "resources[0].providers[0].extra"`},
	{"misspelt provider", rule("  - aescbd: {keys: []}\n"), `unknown field "resources[0].providers[0].aescbd"`},
	{"a field twice", head + "resources: []\nresources: []\n", `key "resources" already set in map`},
	{"wrong type", head + "resources: {}\n", `cannot unmarshal object`},
	{"a number for a secret", rule("  - aescbc: {keys: [{name: k, secret: 12345}]}\n"), `cannot unmarshal number`},

	{"no rules", head, `resources: Required value: at least one resources is required`},
	{"no resources", head + "resources:\n- providers:\n  - identity: {}\n", `resources[0].resources: Required value: at least one resources[0].resources is required`},
	{"no providers", head + "resources:\n- resources: [secrets]\n", `resources[0].providers: Required value: at least one resources[0].providers is required`},
	{"no keys", rule("  - aescbc: {}\n"), `resources[0].providers[0].aescbc.keys: Required value: at least one keys is required`},
	{"no keys for secretbox", rule("  - identity: {}\n  - secretbox: {keys: []}\n"), `resources[0].providers[1].secretbox.keys: Required value: at least one keys is required`},
	{"no name", rule("  - aesgcm: {keys: [{secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}\n"), `resources[0].providers[0].aesgcm.keys[0].name: Required value: name is a mandatory field for a key`},
	{"no secret", rule("  - aesgcm: {keys: [{name: k}]}\n"), `resources[0].providers[0].aesgcm.keys[0].secret: Required value: secret is a mandatory field for a key`},
	{"no base64", rule("  - aesgcm: {keys: [{name: k, secret: '~hush~'}]}\n"), `resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: "REDACTED": secrets must be base64 encoded`},
	{"base64 for URLs", rule("  - aesgcm: {keys: [{name: k, secret: _-" + strings.Repeat("A", 20) + "==}]}\n"), `secrets must be base64 encoded`},
	{"short secret", rule("  - aescbc: {keys: [{name: k, secret: aHVzaA==}]}\n"), `resources[0].providers[0].aescbc.keys[0].secret: Invalid value: "REDACTED": secret is not of the expected length, got 4, expected one of [16 24 32]`},
	{"16 bytes for secretbox", rule("  - secretbox: {keys: [{name: k, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}\n"), `secret is not of the expected length, got 16, expected one of [32]`},
	{"second key", rule("  - aescbc: {keys: [{name: k, secret: c2VjcmV0IGlzIHNlY3VyZQ==}, {name: l, secret: aHVzaA==}]}\n"), `resources[0].providers[0].aescbc.keys[1].secret`},

	{"everything by one star", forResources("['*']"), `use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources`},
	{"a kind in all groups", forResources("['secrets.*']"), `encrypting the same resource across groups is not supported`},
	{"capitals", forResources("[Secrets]"), `resource name should not contain capital letters`},
	{"twice", forResources("[secrets, secrets]"), `the same resource cannot be specified multiple times`},
	{"overlap", forResources("[secrets, '*.']"), `using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked`},
	{"events", forResources("[events.events.k8s.io]"), `Use 'events' instead in the config file`},
	{"extensions", forResources("['*.extensions']"), `'extensions' group has been removed and cannot be used for encryption`},
	{"no objects", forResources("[apiserveripinfo]"), `resources which do not have REST API/s cannot be encrypted`},
	{"KMS without a name", kmsRule("name: ''"), `resources[0].providers[0].kms.name: Required value: name is a mandatory field for a provider`},
	{"KMS with a colon", kmsRule("name: 'a:b'"), `resources[0].providers[0].kms.name: Invalid value: "a:b": invalid KMS provider name a:b, must not contain ':'`},
	{"KMS twice", kmsRule("name: vault") + "  - kms: {apiVersion: v2, name: vault, endpoint: 'unix:///b'}\n", `resources[0].providers[1].kms.name: Invalid value: "vault": duplicate KMS provider name vault, names must be unique`},
	{"KMS in two rules", kmsRule("name: vault") + "- resources: [pods]\n  providers:\n  - kms: {apiVersion: v2, name: vault, endpoint: 'unix:///b'}\n", `resources[1].providers[0].kms.name: Invalid value: "vault": duplicate`},
	{"KMS without an endpoint", kmsRule("endpoint: ''"), `resources[0].providers[0].kms.endpoint: Invalid value: "": endpoint is a mandatory field for a kms`},
	{"KMS on the network", kmsRule("endpoint: 'http://localhost:1'"), `unsupported scheme "http" for KMS provider, only unix is supported`},
	{"KMS at a path", kmsRule("endpoint: /run/kms.sock"), `unsupported scheme "" for KMS provider, only unix is supported`},
	{"KMS at no URL", kmsRule("endpoint: ':'"), `invalid endpoint for kms provider, error: parse ":": missing protocol scheme`},
	{"KMS without time", kmsRule("timeout: 0s"), `resources[0].providers[0].kms.timeout: Invalid value`},
	{"KMS with negative time", kmsRule("timeout: -1s"), `timeout should be a positive value`},
	{"KMS with a number", kmsRule("timeout: 3"), `cannot unmarshal number`},
	{"KMS with a cache", kmsRule("cachesize: 5"), `resources[0].providers[0].kms.cachesize: Invalid value: 5: cachesize is not supported in v2`},
	{"KMS v3", kmsRule("apiVersion: v3"), `resources[0].providers[0].kms.apiVersion: Invalid value: "v3": unsupported apiVersion`},
	{"masked by a group", configOf("*.apps: identity", "deployments.apps: aescbc/k"), `resource "deployments.apps" is masked by earlier rule "*.apps"`},
	{"masked by the core group", configOf("*.: identity", "secrets: aescbc/k"), `resource "secrets" is masked by earlier rule "*."`},
	{"masked by everything", configOf("*.*: identity", "*.: aescbc/k"), `resource "*." is masked by earlier rule "*.*"`},
	{"the same rule twice", configOf("*.apps: identity", "*.apps: identity"), `is masked by earlier rule`},
}

func TestRefused(t *testing.T) {
	for _, test := range refused {
		t.Run(test.name, func(t *testing.T) {
			name := file(t, test.text)
			_, err := loadFile(t, name)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), name) {
				t.Fatalf("got  %v\nwant ... %s", err, test.want)
			}
			_, theirs := judgeOf(t, name)
			if theirs == nil {
				t.Fatalf("the judge accepts a configuration that is rejected with: %v", err)
			}
			_, reason, _ := strings.Cut(err.Error(), name+": ")
			if !strings.Contains(theirs.Error(), reason) {
				t.Errorf("rejected with\n  %s\nby the judge with\n  %v", reason, theirs)
			}
		})
	}
}

func TestRefusedInOwnWords(t *testing.T) {
	for _, test := range []struct{ name, text, want string }{
		{"empty", "", "the file is empty"},
		{"blank", " \n\n", "the file is empty"},
		{"large", "#" + strings.Repeat(" ", most), "more than 1048576 bytes"},
		{"KMS v1", kmsRule("apiVersion: v1"), "resources[0].providers[0].kms.apiVersion: Forbidden: v1, the default, is not supported: must be v2"},
		{"KMS v1 by default", strings.Replace(kmsRule("apiVersion: v2"), "apiVersion: v2, ", "", 1), "resources[0].providers[0].kms.apiVersion: Forbidden: v1, the default"},
		{"KMS without a path", kmsRule("endpoint: 'unix://kms.sock'"), `resources[0].providers[0].kms.endpoint: Invalid value: "unix://kms.sock": has no path: must be unix:///PATH`},
		{"an empty provider", rule("  - {}\n"), "resources[0].providers[0]: Invalid value: provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity"},
		{"two in one", rule("  - identity: {}\n    aescbc: {keys: [{name: k, secret: c2VjcmV0IGlzIHNlY3VyZQ==}]}\n"),
			"resources[0].providers[0]: Invalid value: more than one provider specified in a single element, should split into different list elements"},
		{"two documents", forResources("[secrets]") + "---\n" + forResources("[pods]"), "more than one document"},
	} {
		t.Run(test.name, func(t *testing.T) {
			name := file(t, test.text)
			_, err := loadFile(t, name)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), name) {
				t.Errorf("got  %v\nwant ... %s", err, test.want)
			}
		})
	}
}

func TestRefusedFiles(t *testing.T) {
	dir := t.TempDir()
	missing := filepath.Join(dir, "missing")
	if _, err := loadFile(t, missing); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), missing) {
		t.Errorf("missing: %v", err)
	}
	if _, err := loadFile(t, dir); err == nil || !strings.Contains(err.Error(), dir) {
		t.Errorf("a directory: %v", err)
	}
	locked := file(t, configOf("secrets: aescbc/k"))
	if err := os.Chmod(locked, 0); err != nil {
		t.Fatal(err)
	}
	if f, err := os.Open(locked); err == nil {
		f.Close()
		t.Skip("modes do not restrict this user")
	}
	if _, err := loadFile(t, locked); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("unreadable: %v", err)
	}
}

// TestSecretsStaySecret checks that no error contains a secret.
func TestSecretsStaySecret(t *testing.T) {
	const hush = "aHVzaGh1c2g="
	for _, text := range []string{
		rule("  - aescbc: {keys: [{name: k, secret: " + hush + "}]}\n"),
		rule("  - aescbc: {keys: [{name: k, secret: '" + hush + "~'}]}\n"),
		rule("  - aescbc: {keys: [{name: k, secret: " + hush + ", extra: 1}]}\n"),
		rule("  - aescbc: {keys: [{name: k, secret: [" + hush + "]}]}\n"),
		rule("  - aescbc: {keys: [{name: k, secret: {" + hush + ": 1}}]}\n"),
		rule("  - aescbc: {keys: [{name: {}, secret: " + hush + "}]}\n"),
		rule("  - identity: {}\n    aescbc: {keys: [{name: k, secret: " + hush + "}]}\n"),
		rule("  - aescbc: {keys: [{name: k, secret: " + hush + "}]}\n")[1:],
		rule("  - aescbc:\n      keys:\n      - name: k\n       secret: " + hush + "\n"),
	} {
		if _, err := loadFile(t, file(t, text)); err == nil || strings.Contains(err.Error(), "aHVza") || strings.Contains(err.Error(), "hush") {
			t.Errorf("%v\n%s", err, text)
		}
	}
}

func TestAccepted(t *testing.T) {
	for _, text := range []string{
		"# a comment\n" + forResources("[secrets]"),
		"# a comment\n---\n" + forResources("[secrets]") + "---\n# another\n",
		"---\n" + forResources("[secrets]"),
		strings.Replace(strings.Replace(forResources("[secrets]"), "EncryptionConfiguration", "EncryptionConfig", 1), "apiserver.config.k8s.io/", "", 1),
		`{"apiVersion":"apiserver.config.k8s.io/v1","kind":"EncryptionConfiguration","resources":[{"resources":["secrets"],"providers":[{"identity":{}}]}]}`,
		configOf("secrets: aescbc/k identity", "secrets: aescbc/old"),
	} {
		name := file(t, text)
		if c, err := loadFile(t, name); err != nil || len(c.current.Load().warnings) > 0 {
			t.Errorf("%v, warnings %q\n%s", err, c.current.Load().warnings, text)
		}
		if _, err := judgeOf(t, name); err != nil {
			t.Errorf("judge: %v\n%s", err, text)
		}
	}
}

func TestWarnings(t *testing.T) {
	for _, test := range []struct {
		text string
		mode os.FileMode
		want []string
	}{
		{configOf("secrets: aescbc/a,b identity", "pods: aescbc/a=other"), 0o640, nil},
		{configOf("secrets: aescbc/a,a aesgcm/a=other"), 0o600, nil},
		{configOf("secrets: aescbc/a"), 0o644, []string{"encryption configuration FILE: mode 0644 gives other users of this machine access to the keys: set it to 0600"}},
		{configOf("secrets: aescbc/a"), 0o602, []string{"encryption configuration FILE: mode 0602 gives other users of this machine access to the keys: set it to 0600"}},
		{configOf("pods: identity", "secrets: aescbc/a=one aescbc/a=two,a=three"), 0o600, []string{`encryption configuration FILE: resources[1] has more than one aescbc key "a": use a unique name for every key`}},
	} {
		if runtime.GOOS == "windows" && test.mode&0o007 != 0 {
			continue
		}
		name := file(t, test.text)
		if err := os.Chmod(name, test.mode); err != nil {
			t.Fatal(err)
		}
		c, err := loadFile(t, name)
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, w := range c.current.Load().warnings {
			got = append(got, strings.ReplaceAll(w, name, "FILE"))
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("warnings %q, want %q\n%s", got, test.want, test.text)
		}
	}
}
