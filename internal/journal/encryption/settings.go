package encryption

import (
	"context"
	"crypto/aes"
	"encoding/base64"
	"errors"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/storage/value"
	ciphers "k8s.io/apiserver/pkg/storage/value/encrypt/aes"
	"k8s.io/apiserver/pkg/storage/value/encrypt/secretbox"
)

// settings are the decoded form of one version of the file. They are immutable.
type settings struct {
	warnings  []string
	chains    map[schema.GroupResource]chain // "*" matches any resource, or any group
	other     chain                          // of kinds that the file does not mention
	providers map[string]*provider           // of KMS, by name
}

func (s *settings) chain(r schema.GroupResource) chain {
	for _, name := range [...]schema.GroupResource{r, {Group: r.Group, Resource: "*"}, everything()} {
		if c, ok := s.chains[name]; ok {
			return c
		}
	}
	return s.other
}

// running returns the KMS provider with a configuration; nil if there is none.
func (s *settings) running(config *apiserver.KMSConfiguration) *provider {
	if s == nil || s.providers[config.Name] == nil || !s.providers[config.Name].is(config) {
		return nil
	}
	return s.providers[config.Name]
}

// health returns the errors of the KMS providers that are not healthy.
func (s *settings) health() error {
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(s.providers)) {
		errs = append(errs, s.providers[name].check(context.Background()))
	}
	return utilerrors.NewAggregate(errs)
}

// closeUnless closes the KMS providers that other settings do not have.
func (s *settings) closeUnless(others *settings) {
	for name, p := range s.providers {
		if others.providers[name] != p {
			p.close()
		}
	}
}

func everything() schema.GroupResource { return schema.GroupResource{Group: "*", Resource: "*"} }

// newSettings returns the settings of a valid configuration. provide returns its KMS providers.
func newSettings(config *apiserver.EncryptionConfiguration, provide func(*apiserver.KMSConfiguration) *provider) (*settings, error) {
	s := &settings{chains: map[schema.GroupResource]chain{}, other: chain{identity()}, providers: map[string]*provider{}}
	for _, rule := range config.Resources {
		var c chain
		for _, provider := range rule.Providers {
			if provider.KMS != nil {
				p := provide(provider.KMS)
				s.providers[provider.KMS.Name] = p
				c = append(c, p.lock())
				continue
			}
			locks, err := newLocks(&provider)
			if err != nil {
				return nil, err
			}
			c = append(c, locks...)
		}
		for _, name := range rule.Resources {
			r := schema.ParseGroupResource(name)
			for _, earlier := range []schema.GroupResource{{Group: r.Group, Resource: "*"}, everything()} {
				if _, masked := s.chains[earlier]; masked {
					return nil, fmt.Errorf("resource %q is masked by earlier rule %q", asWritten(r), asWritten(earlier))
				}
			}
			// A kind may occur in several rules: then the first one encrypts.
			s.chains[r] = append(s.chains[r], c...)
		}
	}
	return s, nil
}

// asWritten returns the name of a resource in the file.
func asWritten(r schema.GroupResource) string {
	if r.Group == "" && r.Resource == "*" {
		return "*."
	}
	return r.String()
}

func newLocks(provider *apiserver.ProviderConfiguration) (chain, error) {
	if provider.Identity != nil {
		return chain{identity()}, nil
	}
	name, keys := keysOf(provider)
	var c chain
	for _, key := range keys {
		secret, err := base64.StdEncoding.DecodeString(key.Secret)
		if err != nil {
			return nil, fmt.Errorf("%s key %q: %w", name, key.Name, err)
		}
		cipher, err := newCipher(name, secret)
		if err != nil {
			return nil, fmt.Errorf("%s key %q: %w", name, key.Name, err)
		}
		c = append(c, lock{
			header: reserved + name + ":" + version + ":" + key.Name + ":",
			cipher: cipher,
			least:  map[string]int{aesgcm: 12 + 16, aescbc: 16 + 16, sbox: 24 + 16}[name],
			bound:  name == aesgcm,
		})
	}
	if len(c) == 0 {
		return nil, errors.New("a provider has no keys") // it must not be treated as identity
	}
	return c, nil
}

// The names of the providers with keys, in the file and in stored values.
const (
	aesgcm  = "aesgcm"
	aescbc  = "aescbc"
	sbox    = "secretbox"
	version = "v1"
)

// The name of the provider KMS in stored values, and the version of its API.
const (
	kms        = "kms"
	kmsVersion = "v2"
)

// keysOf returns the name and the keys of a provider that has keys.
func keysOf(p *apiserver.ProviderConfiguration) (provider string, keys []apiserver.Key) {
	switch {
	case p.AESGCM != nil:
		return aesgcm, p.AESGCM.Keys
	case p.AESCBC != nil:
		return aescbc, p.AESCBC.Keys
	case p.Secretbox != nil:
		return sbox, p.Secretbox.Keys
	}
	return "", nil
}

func newCipher(provider string, secret []byte) (value.Transformer, error) {
	if provider == sbox {
		if len(secret) != 32 {
			return nil, fmt.Errorf("the secret has %d bytes, not 32", len(secret))
		}
		return secretbox.NewSecretboxTransformer([32]byte(secret)), nil
	}
	block, err := aes.NewCipher(secret)
	if err != nil {
		return nil, err
	}
	if provider == aescbc {
		return ciphers.NewCBCTransformer(block), nil
	}
	return ciphers.NewGCMTransformer(block)
}
