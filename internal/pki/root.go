package pki

import (
	"encoding/pem"
	"errors"
	"fmt"
	"time"
)

// tokenBlock is the type of the PEM block that holds the token of a root.
const tokenBlock = "KAPOK TOKEN"

// NewRoot returns the credentials that servers on one journal share, so that clients trust all of
// them: an authority and the admin's token, in PEM. They grant all permissions, and must be kept
// secret.
func NewRoot(now time.Time) ([]byte, error) {
	authority, err := newAuthority(now)
	if err != nil {
		return nil, err
	}
	data, err := authority.encode()
	if err != nil {
		return nil, err
	}
	return append(data, pem.EncodeToMemory(&pem.Block{Type: tokenBlock, Bytes: []byte(newSecret())})...), nil
}

func parseRoot(data []byte, now time.Time) (pair, string, error) {
	authority, err := parsePair(data)
	if err != nil {
		return pair{}, "", fmt.Errorf("shared authority: %w", err)
	}
	if !authority.cert.IsCA || !authority.lasts(now, 0) {
		return pair{}, "", fmt.Errorf("shared authority: not valid now, but from %v to %v", authority.cert.NotBefore, authority.cert.NotAfter)
	}
	for block, rest := pem.Decode(data); block != nil; block, rest = pem.Decode(rest) {
		if block.Type == tokenBlock && len(block.Bytes) > 0 {
			return authority, string(block.Bytes), nil
		}
	}
	return pair{}, "", errors.New("shared authority: it has no token")
}
