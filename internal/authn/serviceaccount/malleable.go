package serviceaccount

import (
	"crypto/ecdsa"
	"encoding/base64"
	"math/big"
	"strings"

	"github.com/go-jose/go-jose/v4"
)

// An ECDSA signature (r, s) has a twin, (r, n-s), where n is the order of the curve. It is valid,
// too: so a second token can be derived from each without the key. Tokens that are issued here have
// the smaller s, and the header small-s, which is signed: their twins are rejected. Tokens without
// the header, from Kubernetes and from earlier versions, may have either s.
const smallS = "small-s"

// headers returns the headers of tokens besides algorithm and key.
func (k *Keys) headers() *jose.SignerOptions {
	if _, ok := k.all[0].public.(*ecdsa.PublicKey); !ok {
		return nil
	}
	return (&jose.SignerOptions{}).WithHeader(smallS, true)
}

// canonical returns a newly signed token with the smaller s.
func (k *Keys) canonical(token string) string {
	at := strings.LastIndexByte(token, '.') + 1
	signature, ok := raw(token[at:])
	if !ok || !k.all[0].twin(signature) {
		return token
	}
	n, s := k.all[0].public.(*ecdsa.PublicKey).Params().N, signature[len(signature)/2:]
	new(big.Int).Sub(n, new(big.Int).SetBytes(s)).FillBytes(s)
	return token[:at] + base64.RawURLEncoding.EncodeToString(signature)
}

// twin reports whether a signature has the larger s. It is false for keys that are not ECDSA.
func (k *key) twin(signature []byte) bool {
	public, ok := k.public.(*ecdsa.PublicKey)
	if !ok {
		return false
	}
	half := new(big.Int).Rsh(public.Params().N, 1)
	return new(big.Int).SetBytes(signature[len(signature)/2:]).Cmp(half) > 0
}
