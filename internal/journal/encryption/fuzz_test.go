package encryption

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/kapok-dev/kapok/internal/object"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// FuzzOpen checks that Open only returns bytes that were stored unencrypted, or an object with the
// name and namespace of the key.
func FuzzOpen(f *testing.F) {
	for _, provider := range everyProvider {
		stored, err := mustLoad(f, "secrets: "+provider).Seal(secret, objectOf(secret, "value"))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(secret.Namespace, secret.Name, stored)
		f.Add(secret.Namespace, secret.Name, stored[:len(stored)/2])
		f.Add(secret.Namespace, secret.Name, []byte(headerOf(stored)))
		f.Add(secret.Namespace, secret.Name, append([]byte(headerOf(stored)), "0123456789abcdef"...))
	}
	f.Add("default", "token", objectOf(secret, "value"))
	f.Add("", "", []byte("k8s:enc:"))
	c := mustLoad(f, "secrets: aesgcm/k aesgcm16/k aesgcm24/k aescbc16/k aescbc24/k aescbc/k secretbox/k identity")
	f.Fuzz(func(t *testing.T, namespace, name string, stored []byte) {
		key := object.Key{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: namespace, Name: name}
		before := bytes.Clone(stored)
		raw, stale, err := c.Open(key, stored)
		switch encrypted := bytes.HasPrefix(stored, []byte(reserved)); {
		case !bytes.Equal(before, stored):
			t.Error("Open has changed the stored bytes")
		case err != nil:
			if raw != nil || err.Error() == "" || !encrypted {
				t.Errorf("%q and %v", raw, err)
			}
		case !encrypted:
			if !stale || !bytes.Equal(raw, stored) {
				t.Errorf("%q, stale %v", raw, stale)
			}
		case !belongs(key, raw):
			t.Errorf("opened %q", raw)
		}
	})
}

// FuzzBelongs checks that any encoding is parsed without a panic, and that the fast path accepts
// nothing that the full check rejects.
func FuzzBelongs(f *testing.F) {
	f.Add("default", "token", objectOf(secret, "value"))
	f.Add("", "a", []byte(`{"a":[1,{"b":"\\\"}"}],"metadata":{"labels":{"name":"b"},"name":"a"},"z":null}`))
	f.Add("", "a", []byte(`{"metadata":{"name":"b","name":"a"}}`))
	f.Add("default", "token", []byte("k8s\x00\n\x0c\n\x02v1\x12\x06Secret\x12\x12\n\x10\n\x05token\x12\x00\x1a\x07default"))
	f.Fuzz(func(t *testing.T, namespace, name string, raw []byte) {
		key := object.Key{Resource: schema.GroupResource{Resource: "secrets"}, Namespace: namespace, Name: name}
		gotName, gotNamespace, ok := nameOf(raw)
		if long := ok && gotName == name && gotNamespace == namespace; plainly(key, raw) && json.Valid(raw) && utf8.Valid(raw) && !long {
			t.Errorf("the fast path accepts %s, but the full check finds %q, %q, %v", key, gotNamespace, gotName, ok)
		}
	})
}

// FuzzLoad checks that the judge accepts each configuration that Load accepts.
func FuzzLoad(f *testing.F) {
	for _, test := range refused {
		f.Add(test.text)
	}
	f.Add(forResources("[secrets]"))
	f.Add(configOf("secrets: aescbc/a,b identity", "*.apps: secretbox/c"))
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(strings.ToLower(text), "kms") {
			t.Skip("it would be waited for")
		}
		name := file(t, text)
		c, err := loadFile(t, name)
		if err != nil {
			return
		}
		if _, err := judgeOf(t, name); err != nil {
			t.Errorf("the judge: %v", err)
		}
		raw := objectOf(secret, "value")
		stored, err := c.Seal(secret, raw)
		if err != nil {
			t.Fatal(err)
		}
		if got, stale, err := c.Open(secret, stored); err != nil || stale || !bytes.Equal(got, raw) {
			t.Errorf("opened %q, stale %v, %v", got, stale, err)
		}
	})
}
