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

// After this many refreshes in a row, a missing kind causes one refresh per refreshEvery.
const (
	refreshBurst = 10
	refreshEvery = time.Second
	// refreshTimeout limits a refresh, as in client-go.
	refreshTimeout = 32 * time.Second
)

// NewRESTMapper returns a mapper of kinds and resources that queries the server's discovery: at its
// first use, and again when it misses a kind, so that kinds that are defined later are found.
// Misses cause at most ten queries in a row, and then one a second; in between, a missing kind
// stays missing. It is safe for concurrent use. For a kind that the server does not have it returns
// a meta.NoKindMatchError or a meta.NoResourceMatchError. If the server of an extension group is
// unreachable, or the server does not respond within 32 seconds, it returns the error of that
// request.
//
// It is also a meta.RESTMapperWithContext.
//
// Results are cached. A nil hc is created from cfg.
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

// A mapper answers from the last discovery.
type mapper struct {
	discovery discovery.DiscoveryInterfaceWithContext
	limit     *rate.Limiter

	known     atomic.Pointer[groups]
	begun     atomic.Int64  // how many refreshes have begun
	refreshes chan struct{} // holds a token during a refresh; not a mutex, as the wait for the server may be in virtual time
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

// ResourceSingularizerWithContext answers with the name itself, for names that the server does not
// have.
func (m *mapper) ResourceSingularizerWithContext(ctx context.Context, resource string) (string, error) {
	return lookUp(ctx, m, schema.GroupVersion{}, func(g *groups) (string, error) {
		if g.refresh == 0 {
			return "", &meta.NoResourceMatchError{PartialResource: schema.GroupVersionResource{Resource: resource}}
		}
		return g.ResourceSingularizer(resource)
	})
}

// groupVersion returns the group version to look up: without a version unless versions has exactly
// one, which means every version of the group.
func groupVersion(gk schema.GroupKind, versions []string) schema.GroupVersion {
	if len(versions) == 1 {
		return gk.WithVersion(versions[0]).GroupVersion()
	}
	return schema.GroupVersion{Group: gk.Group}
}

// lookUp calls find with the known discovery, and after a miss with that of a refresh.
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
		return found, fmt.Errorf("wait for discovery: %w", context.Cause(ctx))
	}
	defer func() { <-m.refreshes }()
	if known := m.known.Load(); known != g { // others have missed something, too
		if found, err = find(known); !meta.IsNoMatchError(err) {
			return found, err
		}
	}
	fresh, refreshErr := m.refresh(ctx, begun)
	if refreshErr != nil {
		return found, refreshErr // not err, which may be wrong
	}
	found, err = find(fresh)
	if meta.IsNoMatchError(err) {
		for failed, reason := range fresh.failed {
			if failed.Group == gv.Group && (gv.Version == "" || failed.Version == gv.Version) {
				return found, fmt.Errorf("discover %s: %w", failed, reason)
			}
		}
	}
	return found, err
}

// refresh returns the discovery after begun refreshes had begun: another caller may have refreshed
// it by then. If there were too many refreshes, it returns the current one. The caller holds the
// token of refreshes.
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
		return nil, fmt.Errorf("discover the groups of the server: %w", err)
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
