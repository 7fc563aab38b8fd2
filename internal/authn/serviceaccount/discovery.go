package serviceaccount

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/go-jose/go-jose/v4"
)

// The paths of the documents.
const (
	ConfigurationPath = "/.well-known/openid-configuration"
	KeySetPath        = "/openid/v1/jwks"
)

// Documents returns the two documents with which others verify tokens: the configuration of the
// issuer, and the public keys. The keys are at the URL keysAt, which must be https. Only an issuer
// that is an https URL without query and fragment has documents.
func (i *Issuer) Documents(keysAt string) (configuration, keySet []byte, err error) {
	issuer, err := url.Parse(i.opts.Issuers[0])
	switch {
	case err != nil:
		return nil, nil, err
	case issuer.Scheme != "https":
		return nil, nil, fmt.Errorf("issuer URL must use https scheme, got: %s", issuer)
	case issuer.RawQuery != "":
		return nil, nil, fmt.Errorf("issuer URL may not include a query, got: %s", issuer)
	case issuer.Fragment != "":
		return nil, nil, fmt.Errorf("issuer URL may not include a fragment, got: %s", issuer)
	}
	if keys, err := url.Parse(keysAt); err != nil || keys.Scheme != "https" {
		return nil, nil, errors.Join(fmt.Errorf("URL of the keys requires https scheme, got: %s", keysAt), err)
	}
	var set jose.JSONWebKeySet
	var algorithms []string
	for _, k := range i.opts.Keys.all {
		set.Keys = append(set.Keys, jose.JSONWebKey{Algorithm: string(k.algorithm), Key: k.public, KeyID: k.id, Use: "sig"})
		algorithms = append(algorithms, string(k.algorithm))
	}
	slices.Sort(algorithms)
	configuration, err = json.Marshal(struct {
		Issuer        string   `json:"issuer"`
		JWKSURI       string   `json:"jwks_uri"`
		ResponseTypes []string `json:"response_types_supported"`
		SubjectTypes  []string `json:"subject_types_supported"`
		Algorithms    []string `json:"id_token_signing_alg_values_supported"`
	}{i.opts.Issuers[0], keysAt, []string{"id_token"}, []string{"public"}, slices.Compact(algorithms)})
	if err != nil {
		return nil, nil, err
	}
	keySet, err = json.Marshal(set)
	return configuration, keySet, err
}
