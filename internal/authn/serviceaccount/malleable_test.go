package serviceaccount

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"encoding/base64"
	"math/big"
	"strings"
	"testing"
)

// twinOf returns a token with the other valid signature, which is derived without the key.
func twinOf(t *testing.T, token string, public *ecdsa.PublicKey) string {
	t.Helper()
	at := strings.LastIndexByte(token, '.') + 1
	signature, err := base64.RawURLEncoding.DecodeString(token[at:])
	if err != nil {
		t.Fatal(err)
	}
	s := signature[len(signature)/2:]
	new(big.Int).Sub(public.Params().N, new(big.Int).SetBytes(s)).FillBytes(s)
	return token[:at] + base64.RawURLEncoding.EncodeToString(signature)
}

// TestSecondSignatureIsRefused checks that no second token can be derived from one that is issued
// here.
func TestSecondSignatureIsRefused(t *testing.T) {
	for _, curve := range []elliptic.Curve{elliptic.P256(), elliptic.P384(), elliptic.P521()} {
		t.Run(curve.Params().Name, func(t *testing.T) {
			private := newECDSA(t, curve)
			r := newRig(t, private)
			for range 30 { // without canonical, half of them would have the larger s
				token := r.issue()
				r.accepted(token)
				r.refused(twinOf(t, token, &private.PublicKey), errSignature.Error())
			}
		})
	}
}

// TestSignaturesOfOthersHaveEitherForm checks that tokens of other issuers, such as Kubernetes, may
// have either signature.
func TestSignaturesOfOthersHaveEitherForm(t *testing.T) {
	private := newECDSA(t, elliptic.P256())
	r := newRig(t, private)
	ours := r.opts.Keys.all[0]
	token := forge(t, ours.algorithm, private, ours.id, payload(t, r.issue()))
	r.accepted(token)
	r.accepted(twinOf(t, token, &private.PublicKey))
}
