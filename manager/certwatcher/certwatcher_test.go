package certwatcher_test

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/kapok-dev/kapok/manager/certwatcher"

	certutil "k8s.io/client-go/util/cert"
)

// write writes a certificate of a host.
func write(t *testing.T, cert, key, host string) {
	t.Helper()
	certPEM, keyPEM, err := certutil.GenerateSelfSignedCertKey(host, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, data := range map[string][]byte{cert: certPEM, key: keyPEM} {
		if name != "" {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestCertificatesAreReadAgain(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	if _, err := certwatcher.New(cert, key); !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	write(t, cert, key, "one.example.com")
	synctest.Test(t, func(t *testing.T) {
		w, err := certwatcher.New(cert, key)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		w.WithWatchInterval(time.Minute).RegisterCallback(func(c tls.Certificate) { told = append(told, c.Leaf.DNSNames[0]) })
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- w.Start(ctx) }()

		serves := func(host string) {
			t.Helper()
			time.Sleep(time.Minute)
			synctest.Wait()
			if c, err := w.GetCertificate(nil); err != nil || c.Leaf.DNSNames[0] != host {
				t.Errorf("%v %v, want %s", c, err, host)
			}
		}
		serves("one.example.com")
		write(t, cert, "", "half.example.com") // its key is not written yet
		serves("one.example.com")
		write(t, cert, key, "two.example.com")
		serves("two.example.com")
		cancel()
		if err := <-done; err != nil || len(told) != 2 || told[1] != "two.example.com" || w.NeedLeaderElection() {
			t.Error(err, told)
		}
	})
}
