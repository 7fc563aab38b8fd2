package oci

import (
	"cmp"
	"context"
	"encoding/json"
	"net/url"
	"path"
	"runtime"
	"slices"
	"strings"

	"github.com/kapok-dev/kapok/node/process"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	corev1 "k8s.io/api/core/v1"
)

// userAgent is that of requests to registries.
const userAgent = "kapok"

// fromRegistry adds the image of a reference.
func (s *Store) fromRegistry(ctx context.Context, r *process.ImageRequest) (*process.Image, error) {
	ref, err := name.ParseReference(r.Reference)
	if err != nil {
		return nil, err
	}
	options := []remote.Option{
		remote.WithContext(ctx), remote.WithTransport(s.options.Transport), remote.WithUserAgent(userAgent),
		remote.WithPlatform(v1.Platform{OS: runtime.GOOS, Architecture: runtime.GOARCH}),
		remote.WithAuthFromKeychain(authn.NewMultiKeychain(keychainOf(r.Secrets), authn.DefaultKeychain)),
	}
	found, err := remote.Get(ref, options...)
	if err != nil {
		return nil, err
	}
	image, err := found.Image()
	if err != nil {
		return nil, err
	}
	return s.add(ctx, image, ref.Context().Name()+"@"+found.Digest.String())
}

// A credential is one of a Secret.
type credential struct {
	host, path string // as in the Secret: parts of the host may be patterns
	auth       authn.AuthConfig
}

// A keychain has the credentials of Secrets. It implements authn.Keychain.
type keychain []credential

// keychainOf reads Secrets of the types kubernetes.io/dockerconfigjson and kubernetes.io/dockercfg.
// The server validates their form; credentials that cannot be read are left out.
func keychainOf(secrets []corev1.Secret) keychain {
	var all keychain
	for i := range secrets {
		entries := map[string]json.RawMessage{}
		switch s := &secrets[i]; s.Type {
		case corev1.SecretTypeDockerConfigJson:
			var file struct {
				Auths map[string]json.RawMessage `json:"auths"`
			}
			if json.Unmarshal(s.Data[corev1.DockerConfigJsonKey], &file) == nil {
				entries = file.Auths
			}
		case corev1.SecretTypeDockercfg:
			_ = json.Unmarshal(s.Data[corev1.DockerConfigKey], &entries)
		}
		for key, data := range entries {
			c := credential{}
			if json.Unmarshal(data, &c.auth) != nil {
				continue
			}
			if c.host, c.path = split(key); c.host != "" {
				all = append(all, c)
			}
		}
	}
	// The most specific one first, as in a kubelet.
	slices.SortFunc(all, func(a, b credential) int {
		return cmp.Or(cmp.Compare(len(b.path), len(a.path)), strings.Count(a.host, "*")-strings.Count(b.host, "*"), cmp.Compare(len(b.host), len(a.host)), cmp.Compare(a.host+a.path, b.host+b.path))
	})
	return all
}

// split returns the host, with the port, and the path of a key, which may be a URL.
func split(key string) (host, prefix string) {
	if !strings.Contains(key, "://") {
		key = "https://" + key
	}
	u, err := url.Parse(key)
	if err != nil {
		return "", ""
	}
	prefix = strings.Trim(u.Path, "/")
	if prefix == "v1" || prefix == "v2" {
		prefix = ""
	}
	if host = u.Host; host == "docker.io" {
		host = name.DefaultRegistry
	}
	return host, prefix
}

// Resolve implements authn.Keychain.
func (k keychain) Resolve(r authn.Resource) (authn.Authenticator, error) {
	_, repository, _ := strings.Cut(r.String(), "/")
	for i := range k {
		c := &k[i]
		if hostMatches(c.host, r.RegistryStr()) && (c.path == "" || repository == c.path || strings.HasPrefix(repository, c.path+"/")) {
			return authn.FromConfig(c.auth), nil
		}
	}
	return authn.Anonymous, nil
}

// hostMatches reports whether a host matches a pattern, part by part. Ports are equal.
func hostMatches(pattern, host string) bool {
	if pattern == host {
		return true
	}
	pattern, patternPort, _ := strings.Cut(pattern, ":")
	host, port, _ := strings.Cut(host, ":")
	patterns, parts := strings.Split(pattern, "."), strings.Split(host, ".")
	if patternPort != port || len(patterns) != len(parts) {
		return false
	}
	for i := range parts {
		if ok, err := path.Match(patterns[i], parts[i]); err != nil || !ok {
			return false
		}
	}
	return true
}
