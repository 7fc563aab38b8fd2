package aggregate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/kapok-dev/kapok/internal/authn"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const (
	// maxDocument is the maximum size of a document of another server, in bytes.
	maxDocument = 16 << 20
	// acceptDiscovery is the media type of the aggregated document.
	acceptDiscovery = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
)

// self returns the user of this server's own requests to other servers.
func self() *authn.User {
	return &authn.User{Name: "system:kube-aggregator", Groups: []string{authn.Masters}}
}

// described has the discovery documents of a backend's group versions.
type described struct {
	versions map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery
	whole    bool   // versions has all of them
	etag     string // of the aggregated document; "" if there is none
}

// describe requests the discovery documents of a backend: the aggregated one if it has that, or
// else one for each group version. last is the previous result; nil if there is none.
func (b *backend) describe(ctx context.Context, versions []schema.GroupVersion, last *described) (*described, error) {
	etag := ""
	if last != nil {
		etag = last.etag
	}
	answer, err := b.fetch(ctx, "/apis", acceptDiscovery, etag)
	switch {
	case err != nil:
		return nil, err
	case answer.code == http.StatusNotModified && etag != "":
		return last, nil
	case answer.code == http.StatusServiceUnavailable:
		return nil, fmt.Errorf("service %s returned non-success response code: %d", b.key, answer.code)
	case answer.code == http.StatusOK && answer.aggregated():
		all, err := parseAggregated(answer.body)
		if err != nil {
			return nil, err
		}
		return &described{all, true, answer.header.Get("Etag")}, nil
	}
	d := &described{versions: map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery{}}
	for _, gv := range versions {
		one, oneErr := b.describeVersion(ctx, gv)
		if oneErr != nil {
			err = errors.Join(err, oneErr)
			continue
		}
		d.versions[gv] = one
	}
	return d, err
}

func (b *backend) describeVersion(ctx context.Context, gv schema.GroupVersion) (*apidiscoveryv2.APIVersionDiscovery, error) {
	path := discoveryPath(gv)
	answer, err := b.fetch(ctx, path, "application/json", "")
	if err != nil {
		return nil, err
	}
	if answer.code != http.StatusOK {
		return nil, fmt.Errorf("failed to download legacy discovery for %s: status %d", path, answer.code)
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(answer.body, &list); err != nil {
		return nil, fmt.Errorf("discovery document %s: %w", path, err)
	}
	return &apidiscoveryv2.APIVersionDiscovery{Version: gv.Version, Resources: fromLegacy(list.APIResources)}, nil
}

// parseAggregated decodes a discovery document of v2. It gives every resource a response kind,
// because some clients crash without one.
func parseAggregated(body []byte) (map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery, error) {
	var list apidiscoveryv2.APIGroupDiscoveryList
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, fmt.Errorf("aggregated discovery document: %w", err)
	}
	all := map[schema.GroupVersion]*apidiscoveryv2.APIVersionDiscovery{}
	for _, group := range list.Items {
		for i := range group.Versions {
			v := &group.Versions[i]
			for j := range v.Resources {
				r := &v.Resources[j]
				if r.ResponseKind == nil {
					r.ResponseKind = &metav1.GroupVersionKind{}
				}
				for k := range r.Subresources {
					if r.Subresources[k].ResponseKind == nil {
						r.Subresources[k].ResponseKind = &metav1.GroupVersionKind{}
					}
				}
			}
			all[schema.GroupVersion{Group: group.Name, Version: v.Version}] = v
		}
	}
	return all, nil
}

// fromLegacy converts a flat list of resources and subresources to the form of the aggregated
// document. A subresource without its resource in the list gets a parent without verbs.
func fromLegacy(flat []metav1.APIResource) []apidiscoveryv2.APIResourceDiscovery {
	var all []apidiscoveryv2.APIResourceDiscovery
	index := map[string]int{}
	scope := func(namespaced bool) apidiscoveryv2.ResourceScope {
		if namespaced {
			return apidiscoveryv2.ScopeNamespace
		}
		return apidiscoveryv2.ScopeCluster
	}
	kind := func(r *metav1.APIResource) *metav1.GroupVersionKind {
		return &metav1.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	}
	for i := range flat {
		if r := &flat[i]; !strings.Contains(r.Name, "/") {
			index[r.Name] = len(all)
			all = append(all, apidiscoveryv2.APIResourceDiscovery{
				Resource: r.Name, SingularResource: r.SingularName, Scope: scope(r.Namespaced), ResponseKind: kind(r),
				Verbs: r.Verbs, ShortNames: r.ShortNames, Categories: r.Categories,
			})
		}
	}
	for i := range flat {
		r := &flat[i]
		parent, name, sub := strings.Cut(r.Name, "/")
		if !sub {
			continue
		}
		at, known := index[parent]
		if !known {
			at = len(all)
			index[parent] = at
			all = append(all, apidiscoveryv2.APIResourceDiscovery{
				Resource: parent, Scope: scope(r.Namespaced), ResponseKind: &metav1.GroupVersionKind{},
			})
		}
		all[at].Subresources = append(all[at].Subresources, apidiscoveryv2.APISubresourceDiscovery{
			Subresource: name, ResponseKind: kind(r), Verbs: r.Verbs,
		})
	}
	return all
}

// A document is a response of a backend.
type document struct {
	code   int
	header http.Header
	body   []byte
}

// aggregated reports whether the document has the media type acceptDiscovery.
func (d *document) aggregated() bool {
	typ, params, err := mime.ParseMediaType(d.header.Get("Content-Type"))
	return err == nil && typ == "application/json" &&
		params["g"] == "apidiscovery.k8s.io" && params["v"] == "v2" && params["as"] == "APIGroupDiscoveryList"
}

// get sends a request to a backend, and returns the response and the URL. The caller closes the
// body within five seconds.
func (b *backend) get(ctx context.Context, path, accept, etag string) (*http.Response, string, error) {
	if b.broken != nil {
		return nil, "", b.broken
	}
	host, err := b.resolve()
	if err != nil {
		return nil, "", err
	}
	where := (&url.URL{Scheme: b.scheme, Host: host, Path: path}).String()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, where, nil)
	if err != nil {
		return nil, "", err
	}
	if accept != "" {
		r.Header.Set("Accept", accept)
	}
	if etag != "" {
		r.Header.Set("If-None-Match", etag)
	}
	introduce(r, self())
	client := &http.Client{
		Transport: b.Plain, Timeout: discoveryTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	answer, err := client.Do(r)
	if err != nil {
		return nil, "", fmt.Errorf("failing or missing response from %s: %w", where, err)
	}
	return answer, where, nil
}

// fetch requests a document of a backend and reads it.
func (b *backend) fetch(ctx context.Context, path, accept, etag string) (*document, error) {
	answer, where, err := b.get(ctx, path, accept, etag)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxDocument+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", where, err)
	}
	if len(body) > maxDocument {
		return nil, fmt.Errorf("read %s: the document is larger than %d bytes", where, maxDocument)
	}
	return &document{answer.StatusCode, answer.Header, body}, nil
}

// Intervals of discovery requests.
const (
	refreshInterval = time.Minute
	firstRefresh    = 500 * time.Millisecond // after a failure; it doubles with each further one
)
