// Package certwatcher reads a certificate and its key from two files, again when they change.
//
//	watcher, err := certwatcher.New("tls.crt", "tls.key")
//	config := &tls.Config{GetCertificate: watcher.GetCertificate}
//	err = mgr.Add(watcher)
package certwatcher

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/kapok-dev/kapok/manager/log"
)

// Interval is the default interval at which the files are read. See WithWatchInterval.
const Interval = 10 * time.Second

// A CertWatcher provides the certificate of two PEM files. The files are polled rather than
// watched: files of a Secret are links whose targets change, and a file may change twice within the
// resolution of its time. While the files do not match, for example because only one of them has
// been written, the last matching pair is used.
type CertWatcher struct {
	cert, key string
	interval  time.Duration

	mu struct {
		sync.Mutex
		certPEM, keyPEM []byte
		current         *tls.Certificate
		callback        func(tls.Certificate)
	}
}

// New reads the files, which must exist.
func New(certPath, keyPath string) (*CertWatcher, error) {
	w := &CertWatcher{cert: certPath, key: keyPath, interval: Interval}
	if err := w.ReadCertificate(); err != nil {
		return nil, err
	}
	return w, nil
}

// WithWatchInterval sets how often Start reads the files, and returns the CertWatcher. 0 or less:
// Interval.
func (w *CertWatcher) WithWatchInterval(interval time.Duration) *CertWatcher {
	if interval <= 0 {
		interval = Interval
	}
	w.interval = interval
	return w
}

// RegisterCallback calls f with the current certificate, and with each later one, until another
// function is registered.
func (w *CertWatcher) RegisterCallback(f func(tls.Certificate)) {
	w.mu.Lock()
	w.mu.callback = f
	current := *w.mu.current
	w.mu.Unlock()
	if f != nil {
		f(current)
	}
}

// GetCertificate returns the current certificate, for tls.Config.
func (w *CertWatcher) GetCertificate(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.mu.current == nil {
		return nil, errors.New("certwatcher: no certificate has been read")
	}
	return w.mu.current, nil
}

// NeedLeaderElection is false: every replica serves.
func (w *CertWatcher) NeedLeaderElection() bool { return false }

// Start reads the files at every interval until ctx ends.
func (w *CertWatcher) Start(ctx context.Context) error {
	logger := log.FromContext(ctx).WithValues("certificate", w.cert, "key", w.key)
	ticker := time.NewTicker(w.interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if changed, err := w.read(); err != nil {
			logger.Error(err, "Cannot read the certificate again; the last one stays")
		} else if changed {
			logger.Info("The certificate has changed")
		}
	}
}

// ReadCertificate reads the files now.
func (w *CertWatcher) ReadCertificate() error {
	_, err := w.read()
	return err
}

func (w *CertWatcher) read() (changed bool, err error) {
	certPEM, err := os.ReadFile(w.cert)
	if err != nil {
		return false, fmt.Errorf("certificate: %w", err)
	}
	keyPEM, err := os.ReadFile(w.key)
	if err != nil {
		return false, fmt.Errorf("key of a certificate: %w", err)
	}
	w.mu.Lock()
	same := bytes.Equal(certPEM, w.mu.certPEM) && bytes.Equal(keyPEM, w.mu.keyPEM)
	w.mu.Unlock()
	if same {
		return false, nil
	}
	pair, err := tls.X509KeyPair(certPEM, keyPEM)
	if err != nil {
		return false, fmt.Errorf("certificate %s, key %s: %w", w.cert, w.key, err)
	}
	w.mu.Lock()
	w.mu.certPEM, w.mu.keyPEM, w.mu.current = certPEM, keyPEM, &pair
	callback := w.mu.callback
	w.mu.Unlock()
	if callback != nil {
		callback(pair)
	}
	return true, nil
}
