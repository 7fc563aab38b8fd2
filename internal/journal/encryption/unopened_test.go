package encryption

import (
	"errors"
	"strings"
	"testing"
)

func TestUnopened(t *testing.T) {
	c := mustLoad(t, "secrets: aesgcm/new,a:b secretbox/box")
	sealed := func(rule string) string {
		stored, err := mustLoad(t, "secrets: "+rule).Seal(secret, objectOf(secret, "value"))
		if err != nil {
			t.Fatal(err)
		}
		return string(stored)
	}
	for _, test := range []struct {
		name, stored string
		header       string
		known        bool
		want         string
	}{
		{"not encrypted", `{"metadata":{}}`, "", false,
			"/registry/secrets/default/token is stored unencrypted, and FILE does not allow that for secrets: add identity as the last provider"},
		{"nothing", "", "", false, "is stored unencrypted"},
		{"missing key", sealed("aesgcm/old"), "k8s:enc:aesgcm:v1:old:", false,
			`/registry/secrets/default/token is encrypted with aesgcm key "old", which FILE does not have for secrets: add the key after the one that encrypts`},
		{"missing provider", sealed("aescbc/new"), "k8s:enc:aescbc:v1:new:", false, `is encrypted with aescbc key "new", which FILE does not have`},
		{"another secret", sealed("secretbox/box=other"), "k8s:enc:secretbox:v1:box:", true,
			`/registry/secrets/default/token cannot be decrypted with secretbox key "box" of FILE:` +
				` the secret of the key has changed, or the stored object has been changed or moved`},
		{"a colon in a name", sealed("aesgcm/a:b=other"), "k8s:enc:aesgcm:v1:a:b:", true, `cannot be decrypted with aesgcm key "a:b" of FILE`},
		{"no ciphertext", "k8s:enc:aesgcm:v1:new:", "k8s:enc:aesgcm:v1:new:", true, `cannot be decrypted with aesgcm key "new" of FILE`},
		{"kms", "k8s:enc:kms:v2:vault:\x00\x01", "k8s:enc:kms:v2:vault:", false,
			`/registry/secrets/default/token is encrypted with KMS provider "vault", which FILE does not have for secrets: add the provider after the one that encrypts`},
		{"kms v1", "k8s:enc:kms:v1:vault:\x00\x01", "k8s:enc:kms:v1:vault:", false,
			"/registry/secrets/default/token is encrypted by a provider of KMS v1, which is not supported: decrypt it where it was written, with identity as the first provider"},
		{"unknown provider", "k8s:enc:rot13:v1:k:xyz", "k8s:enc:rot13:v1:k:", false, `is encrypted in an unknown format ("k8s:enc:rot13:v1:k:")`},
		{"unknown version", "k8s:enc:aesgcm:v2:new:xyz", "k8s:enc:aesgcm:v2:new:", false, `is encrypted in an unknown format ("k8s:enc:aesgcm:v2:new:")`},
		{"cut in the header", "k8s:enc:aesgcm:v1:ne", "k8s:enc:", false, `is encrypted in an unknown format ("k8s:enc:")`},
		{"an endless name", "k8s:enc:aesgcm:v1:" + strings.Repeat("x", 1000) + ":", "k8s:enc:", false, `is encrypted in an unknown format ("k8s:enc:")`},
	} {
		t.Run(test.name, func(t *testing.T) {
			raw, stale, err := c.Open(secret, []byte(test.stored))
			var unopened *UnopenedError
			if !errors.As(err, &unopened) || raw != nil || stale {
				t.Fatalf("opened %q, stale %v, %v", raw, stale, err)
			}
			if unopened.Header != test.header || unopened.Known != test.known {
				t.Errorf("header %q, known %v; want %q, %v", unopened.Header, unopened.Known, test.header, test.known)
			}
			if text := strings.ReplaceAll(err.Error(), c.file, "FILE"); !strings.Contains(text, test.want) {
				t.Errorf("got  %s\nwant %s", text, test.want)
			}
		})
	}
}
