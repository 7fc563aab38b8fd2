package pki

import (
	"bytes"
	"encoding/pem"
	"testing"
	"time"
)

// TestRoot checks that servers with one root trust the same clients, and that clients trust them
// all.
func TestRoot(t *testing.T) {
	now := time.Now()
	root, err := NewRoot(now)
	if err != nil {
		t.Fatal(err)
	}
	a, err := Open("", root, []string{"one.example.com"}, now)
	if err != nil {
		t.Fatal(err)
	}
	b, err := Open(t.TempDir(), root, []string{"127.0.0.1"}, now)
	if err != nil {
		t.Fatal(err)
	}
	if a.Token() != b.Token() || len(a.Token()) < 40 {
		t.Errorf("tokens %q and %q", a.Token(), b.Token())
	}
	if !a.ClientCAs().Equal(b.ClientCAs()) {
		t.Error("they trust different clients")
	}
	for _, p := range []pair{a.serving, a.admin, b.serving, b.admin} {
		if !p.signedBy(a.authority) {
			t.Errorf("%s is not signed by the root", p.cert.Subject)
		}
	}
}

func TestBadRoots(t *testing.T) {
	now := time.Now()
	root, err := NewRoot(now)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := Open("", nil, nil, now)
	if err != nil {
		t.Fatal(err)
	}
	noAuthority, err := leaf.serving.encode()
	if err != nil {
		t.Fatal(err)
	}
	token := pem.EncodeToMemory(&pem.Block{Type: tokenBlock, Bytes: []byte("x")})
	for name, data := range map[string][]byte{
		"nothing":      {},
		"no pem":       []byte("x"),
		"no token":     root[:bytes.Index(root, []byte("-----BEGIN "+tokenBlock))],
		"token alone":  token,
		"no authority": append(noAuthority, token...),
	} {
		if _, err := Open("", data, nil, now); err == nil {
			t.Errorf("%s is accepted as a root", name)
		}
	}
	if _, err := Open("", root, nil, now.Add(2*authorityLife)); err == nil {
		t.Error("an expired root is accepted")
	}
}
