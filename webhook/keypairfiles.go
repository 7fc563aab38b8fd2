package webhook

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"os"
	"sync/atomic"
	"time"
)

// readInterval is how often the files of a certificate are read.
const readInterval = 10 * time.Second

// keyPairFiles are a certificate and its key in two files, which may change. They are read again rather than watched: files of a
// Secret are links whose targets change, and a file may change twice within the resolution of its time.
type keyPairFiles struct {
	cert, key       string
	certPEM, keyPEM []byte // as they were when they last made a pair; owned by run
	current         atomic.Pointer[tls.Certificate]
}

// newKeyPairFiles reads the files, which must be there.
func newKeyPairFiles(cert, key string) (*keyPairFiles, error) {
	f := &keyPairFiles{cert: cert, key: key}
	if _, err := f.read(); err != nil {
		return nil, fmt.Errorf("the certificate of the webhook server: %w", err)
	}
	return f, nil
}

// GetCertificate is for tls.Config.
func (f *keyPairFiles) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	return f.current.Load(), nil
}

// run reads the files until ctx is done. While they are no pair, as when only one of them has been written yet, the last one stays.
func (f *keyPairFiles) run(ctx context.Context) {
	log := loggerFrom(ctx).WithValues("certificate", f.cert, "key", f.key)
	ticker := time.NewTicker(readInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		if changed, err := f.read(); err != nil {
			log.Error(err, "the certificate cannot be read again; the last one stays")
		} else if changed {
			log.Info("the certificate has changed")
		}
	}
}

func (f *keyPairFiles) read() (changed bool, err error) {
	certPEM, err := os.ReadFile(f.cert)
	if err != nil {
		return false, err
	}
	keyPEM, err := os.ReadFile(f.key)
	if err != nil {
		return false, err
	}
	if bytes.Equal(certPEM, f.certPEM) && bytes.Equal(keyPEM, f.keyPEM) {
		return false, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return false, err
	}
	f.certPEM, f.keyPEM = certPEM, keyPEM
	f.current.Store(&pair)
	return true, nil
}
