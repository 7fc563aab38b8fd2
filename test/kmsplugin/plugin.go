// Package kmsplugin is a KMS plugin for tests, with keys in memory:
//
//	plugin := kmsplugin.New("first")
//	server, err := kmsplugin.Serve("/tmp/kms.sock", plugin)
//	...
//	plugin.Rotate("second")
//	server.Close()
//
// The program in serve runs such a plugin.
package kmsplugin

import (
	"context"
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"

	"k8s.io/kms/pkg/service"
)

// A Plugin encrypts with AES-GCM. The secret of a key is derived from its ID, so that two plugins
// with the same keys decrypt what the other has encrypted. Its methods are safe for concurrent use.
type Plugin struct {
	mu     sync.Mutex
	key    string          // the current key
	keys   map[string]bool // all that it decrypts with
	answer func(context.Context, *service.StatusResponse) error
	calls  map[string]int
}

var _ service.Service = (*Plugin)(nil)

// New returns a plugin with a key.
func New(key string) *Plugin {
	return &Plugin{key: key, keys: map[string]bool{key: true}, calls: map[string]int{}}
}

// Rotate makes another key the current one. Older keys still decrypt.
func (p *Plugin) Rotate(key string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.key, p.keys[key] = key, true
}

// Fail makes all calls return an error, until it is called with nil.
func (p *Plugin) Fail(err error) {
	p.Answer(func(context.Context, *service.StatusResponse) error { return err })
}

// Hang makes calls wait until their contexts are done, until Fail(nil).
func (p *Plugin) Hang() {
	p.Answer(func(ctx context.Context, _ *service.StatusResponse) error {
		<-ctx.Done()
		return ctx.Err()
	})
}

// Answer calls a function at the begin of each call, which returns its error, if any. The function
// may change the response to Status, which is nil in other calls.
func (p *Plugin) Answer(with func(context.Context, *service.StatusResponse) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answer = with
}

// Calls returns the number of calls of a method.
func (p *Plugin) Calls(method string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[method]
}

// called counts a call, and returns the current key.
func (p *Plugin) called(ctx context.Context, method string, s *service.StatusResponse) (key string, err error) {
	p.mu.Lock()
	p.calls[method]++
	key, answer := p.key, p.answer
	p.mu.Unlock()
	if s != nil {
		s.KeyID = key
	}
	if answer != nil {
		err = answer(ctx, s)
	}
	return key, err
}

// Status implements service.Service.
func (p *Plugin) Status(ctx context.Context) (*service.StatusResponse, error) {
	s := &service.StatusResponse{Version: "v2", Healthz: "ok"}
	if _, err := p.called(ctx, "Status", s); err != nil {
		return nil, err
	}
	return s, nil
}

// Encrypt implements service.Service.
func (p *Plugin) Encrypt(ctx context.Context, _ string, data []byte) (*service.EncryptResponse, error) {
	key, err := p.called(ctx, "Encrypt", nil)
	if err != nil {
		return nil, err
	}
	sealer, err := sealerOf(key)
	if err != nil {
		return nil, err
	}
	nonce := make([]byte, sealer.NonceSize())
	if _, err := rand.Read(nonce); err != nil {
		return nil, err
	}
	return &service.EncryptResponse{
		Ciphertext:  sealer.Seal(nonce, nonce, data, nil),
		KeyID:       key,
		Annotations: map[string][]byte{"version.kmsplugin.kapok.dev": []byte("1")},
	}, nil
}

// Decrypt implements service.Service.
func (p *Plugin) Decrypt(ctx context.Context, _ string, r *service.DecryptRequest) ([]byte, error) {
	if _, err := p.called(ctx, "Decrypt", nil); err != nil {
		return nil, err
	}
	p.mu.Lock()
	known := p.keys[r.KeyID]
	p.mu.Unlock()
	if !known {
		return nil, fmt.Errorf("key %q does not exist", r.KeyID)
	}
	sealer, err := sealerOf(r.KeyID)
	if err != nil {
		return nil, err
	}
	n := sealer.NonceSize()
	if len(r.Ciphertext) < n {
		return nil, errors.New("ciphertext too short")
	}
	return sealer.Open(nil, r.Ciphertext[:n], r.Ciphertext[n:], nil)
}

func sealerOf(key string) (cipher.AEAD, error) {
	secret := sha256.Sum256([]byte(key))
	block, err := aes.NewCipher(secret[:])
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}
