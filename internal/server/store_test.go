package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/kapok-dev/kapok/internal/journal/etcd"
)

func TestStoreAddress(t *testing.T) {
	for store, want := range map[string][]string{
		"etcd://127.0.0.1:2379":          {"http://127.0.0.1:2379"},
		"etcd://a:2379,b:2379,[::1]:239": {"http://a:2379", "http://b:2379", "http://[::1]:239"},
		"etcd://":                        nil,
		"etcd://a":                       nil,
		"etcd://a:2379,":                 nil,
		"etcd://a:2379/x":                nil,
		"etcd://user:pw@a:2379":          nil,
		"http://a:2379":                  nil,
		"a:2379":                         nil,
		"etcd:a:2379":                    nil,
	} {
		o := Options{Store: store}
		got, err := o.etcd()
		if err == nil != (want != nil) || !slices.Equal(got.Endpoints, want) {
			t.Errorf("%s: endpoints %v, error %v", store, got.Endpoints, err)
		}
		if err != nil && !strings.Contains(err.Error(), "etcd://HOST:PORT") {
			t.Errorf("%s: %v does not name the expected form", store, err)
		}
	}
	for prefix, want := range map[string]string{"": "/registry", "/": "/", "x": "/x", "/x/y/": "/x/y"} {
		o := Options{Store: "etcd://a:1", Etcd: etcd.Connection{Prefix: prefix}}
		if got, err := o.etcd(); err != nil || got.Prefix != want {
			t.Errorf("prefix %q: %q, %v", prefix, got.Prefix, err)
		}
	}
}

func TestStoreOptions(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.pem")
	if err := os.WriteFile(bad, []byte("no certificate"), 0o600); err != nil {
		t.Fatal(err)
	}
	missing := filepath.Join(dir, "missing")
	const store = "etcd://127.0.0.1:1"
	for _, tc := range []struct {
		name    string
		options Options
		want    string
	}{
		{"how without which", Options{Etcd: etcd.Connection{Username: "x"}}, "Options.Etcd is set but Options.Store is not: set Store to \"etcd://HOST:PORT\""},
		{"no CA file", Options{Store: store, Etcd: etcd.Connection{CAFile: missing}}, "no such file"},
		{"no CA", Options{Store: store, Etcd: etcd.Connection{CAFile: bad}}, "no certificate in PEM"},
		{"half a pair", Options{Store: store, Etcd: etcd.Connection{CertFile: bad}}, "both"},
		{"bad pair", Options{Store: store, Etcd: etcd.Connection{CertFile: bad, KeyFile: bad}}, "client certificate"},
		{"nothing to encrypt", Options{EncryptionConfig: bad}, "set DataDir or Store"},
		{"bad encryption", Options{EncryptionConfig: bad, DataDir: dir}, bad},
	} {
		t.Run(tc.name, func(t *testing.T) {
			server, err := Start(t.Context(), tc.options)
			if err == nil {
				server.Stop()
			}
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
}
