package client

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
)

// After so many refreshes in a row, a kind that is missing is looked for once in refreshEvery.
const (
	refreshBurst = 10
	refreshEvery = time.Second
	// refreshTimeout is how long the server may take to say what it has, as in client-go.
	refreshTimeout = 32 * time.Second
)

// NewRESTMapper returns a mapper of kinds and resources that asks the server what it has: when it is first used, and again when
// something is missed, so that what is defined later is found later. Misses ask at most ten times in a row, and then once a
// second; in between, what is missing stays missing. It is safe for concurrent use. What the server does not have is
// a meta.NoKindMatchError or a meta.NoResourceMatchError; a group whose own server is out of reach is an error that says so, as is a
// server that has not answered after 32 seconds.
//
// It is a meta.RESTMapperWithContext, too.
//
// What has been found is kept. A nil hc is made of cfg.
func NewRESTMapper(cfg *rest.Config, hc *http.Client) (meta.RESTMapper, error) {
	if cfg == nil {
		return nil, errors.New("RESTMapper: the rest.Config is nil")
	}
	cfg = rest.CopyConfig(cfg)
	if cfg.QPS == 0 && cfg.RateLimiter == nil {
		cfg.QPS = -1
	}
	if hc == nil {
		var err error
		if hc, err = rest.HTTPClientFor(cfg); err != nil {
			return nil, fmt.Errorf("RESTMapper: %w", err)
		}
	}
	dc, err := discovery.NewDiscoveryClientForConfigAndClient(cfg, hc)
	if err != nil {
		return nil, fmt.Errorf("RESTMapper: %w", err)
	}
	m := &mapper{
		discovery: dc,
		limit:     rate.NewLimiter(rate.Every(refreshEvery), refreshBurst),
		refreshes: make(chan struct{}, 1),
	}
	m.known.Store(&groups{RESTMapper: meta.MultiRESTMapper{}})
	return m, nil
}

// A mapper answers from what the server has said last.
type mapper struct {
	discovery discovery.DiscoveryInterfaceWithContext
	limit     *rate.Limiter

	known     atomic.Pointer[groups]
	begun     atomic.Int64  // how many refreshes have begun
	refreshes chan struct{} // holds a token while there is one; not a mutex, as the server may be waited for in virtual time
}

// groups are the groups of a server, as they were when a refresh asked.
type groups struct {
	meta.RESTMapper
	refresh int64 // which refresh this was, 1 the first
	failed  map[schema.GroupVersion]error
}

func (m *mapper) KindFor(r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return m.KindForWithContext(context.Background(), r)
}

func (m *mapper) KindsFor(r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return m.KindsForWithContext(context.Background(), r)
}

func (m *mapper) ResourceFor(r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return m.ResourceForWithContext(context.Background(), r)
}

func (m *mapper) ResourcesFor(r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return m.ResourcesForWithContext(context.Background(), r)
}

func (m *mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return m.RESTMappingWithContext(context.Background(), gk, versions...)
}

func (m *mapper) RESTMappings(gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return m.RESTMappingsWithContext(context.Background(), gk, versions...)
}

func (m *mapper) ResourceSingularizer(resource string) (string, error) {
	return m.ResourceSingularizerWithContext(context.Background(), resource)
}

func (m *mapper) KindForWithContext(ctx context.Context, r schema.GroupVersionResource) (schema.GroupVersionKind, error) {
	return lookUp(ctx, m, r.GroupVersion(), func(g *groups) (schema.GroupVersionKind, error) { return g.KindFor(r) })
}

func (m *mapper) KindsForWithContext(ctx context.Context, r schema.GroupVersionResource) ([]schema.GroupVersionKind, error) {
	return lookUp(ctx, m, r.GroupVersion(), func(g *groups) ([]schema.GroupVersionKind, error) { return g.KindsFor(r) })
}

func (m *mapper) ResourceForWithContext(ctx context.Context, r schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	return lookUp(ctx, m, r.GroupVersion(), func(g *groups) (schema.GroupVersionResource, error) { return g.ResourceFor(r) })
}

func (m *mapper) ResourcesForWithContext(ctx context.Context, r schema.GroupVersionResource) ([]schema.GroupVersionResource, error) {
	return lookUp(ctx, m, r.GroupVersion(), func(g *groups) ([]schema.GroupVersionResource, error) { return g.ResourcesFor(r) })
}

func (m *mapper) RESTMappingWithContext(ctx context.Context, gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	return lookUp(ctx, m, groupVersion(gk, versions), func(g *groups) (*meta.RESTMapping, error) { return g.RESTMapping(gk, versions...) })
}

func (m *mapper) RESTMappingsWithContext(ctx context.Context, gk schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	return lookUp(ctx, m, groupVersion(gk, versions), func(g *groups) ([]*meta.RESTMapping, error) { return g.RESTMappings(gk, versions...) })
}

// ResourceSingularizerWithContext answers with the name itself, for names that the server does not have.
func (m *mapper) ResourceSingularizerWithContext(ctx context.Context, resource string) (string, error) {
	return lookUp(ctx, m, schema.GroupVersion{}, func(g *groups) (string, error) {
		if g.refresh == 0 {
			return "", &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: resource}}
		}
		return g.ResourceSingularizer(resource)
	})
}

// groupVersion is what of a group is looked for. Several versions are all of them.
func groupVersion(gk schema.GroupKind, versions []string) schema.GroupVersion {
	if len(versions) == 1 {
		return gk.WithVersion(versions[0]).GroupVersion()
	}
	return schema.GroupVersion{Group: gk.Group}
}

// lookUp looks for something in what is known, and after a miss in what the server has now.
func lookUp[T any](ctx context.Context, m *mapper, gv schema.GroupVersion, find func(*groups) (T, error)) (T, error) {
	begun := m.begun.Load()
	g := m.known.Load()
	found, err := find(g)
	if !meta.IsNoMatchError(err) {
		return found, err
	}
	select {
	case m.refreshes <- struct{}{}:
	case <-ctx.Done():
		return found, fmt.Errorf("wait for the groups of the server: %w", context.Cause(ctx))
	}
	defer func() { <-m.refreshes }()
	if known := m.known.Load(); known != g { // others have missed something, too
		if found, err = find(known); !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	fresh, refreshErr := m.refresh(ctx, begun)
	if refreshErr != nil {
		return found, refreshErr // and not err, as nobody knows whether it is true
	}
	found, err = find(fresh)
	if meta.IsNoMatchError(err) {
		for failed, reason := range fresh.failed {
			if failed.Group == gv.Group && (gv.Version == "" || failed.Version == gv.Version) {
				return found, fmt.Errorf("look into %s: %w", failed, reason)
			}
		}
	}
	return found, err
}

// refresh returns what the server has after begun refreshes had begun: another caller may have asked by then. If the server has been asked
// too often, it returns what is known. The caller holds the token of refreshes.
func (m *mapper) refresh(ctx context.Context, begun int64) (*groups, error) {
	known := m.known.Load()
	if known.refresh > begun || known.refresh > 0 && !m.limit.Allow() {
		return known, nil
	}
	fresh := &groups{refresh: m.begun.Add(1)}
	ctx, cancel := context.WithTimeout(ctx, refreshTimeout)
	defer cancel()
	list, resources, err := m.discovery.ServerGroupsAndResourcesWithContext(ctx)
	if err != nil && (ctx.Err() != nil || !discovery.IsGroupDiscoveryFailedError(err) || list == nil) {
		return nil, fmt.Errorf("ask for the groups of the server: %w", err)
	}
	if failed := (*discovery.ErrGroupDiscoveryFailed)(nil); errors.As(err, &failed) {
		fresh.failed = failed.Groups
	}
	fresh.RESTMapper = restmapper.NewDiscoveryRESTMapper(byGroup(list, resources))
	m.known.Store(fresh)
	return fresh, nil
}

// byGroup puts the resources of each version to its group.
func byGroup(groups []*metav1.APIGroup, lists []*metav1.APIResourceList) []*restmapper.APIGroupResources {
	resources := make(map[string][]metav1.APIResource, len(lists))
	for _, list := range lists {
		resources[list.GroupVersion] = list.APIResources
	}
	all := make([]*restmapper.APIGroupResources, 0, len(groups))
	for _, group := range groups {
		g := &restmapper.APIGroupResources{Group: *group, VersionedResources: map[string][]metav1.APIResource{}}
		for _, v := range group.Versions {
			if list, ok := resources[v.GroupVersion]; ok {
				g.VersionedResources[v.Version] = list
			}
		}
		all = append(all, g)
	}
	return all
}
