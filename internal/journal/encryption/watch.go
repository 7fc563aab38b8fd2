package encryption

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/kapok-dev/kapok/internal/object"
	"github.com/kapok-dev/kapok/internal/reload"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/apis/apiserver"
)

// Watch loads the file again when its content changes, until ctx is done. Watch must not be called
// concurrently.
func (c *Config) Watch(ctx context.Context) { reload.Watch(ctx, c.log, c.source) }

// Changed returns the time when Watch last activated another configuration, or a KMS plugin last
// changed its key; zero if neither has happened. Objects that were sealed or opened before then may
// be stale although they were not reported as stale.
func (c *Config) Changed() time.Time {
	if at := c.changed.Load(); at != nil {
		return *at
	}
	return time.Time{}
}

// hasChanged sets the time that Changed returns. It is called after the change, so that objects
// sealed later are not older.
func (c *Config) hasChanged() { c.changed.Store(new(time.Now())) }

// load activates the content of the file. KMS providers that have not changed continue to run. New
// ones must be healthy, except at the start, as in kube-apiserver.
func (c *Config) load(ctx context.Context, contents [][]byte) (err error) {
	before := c.current.Load()
	var fresh []*provider
	defer func() {
		if err != nil {
			for _, p := range fresh {
				p.close()
			}
		}
	}()
	s, err := parse(c.file, contents[0], func(config *apiserver.KMSConfiguration) *provider {
		p := before.running(config)
		if p == nil {
			p = newProvider(config, c.log, c.hasChanged)
			fresh = append(fresh, p)
		}
		return p
	})
	if err != nil {
		return err
	}
	for _, p := range fresh {
		if err := p.connect(c.dial); err != nil {
			return err
		}
		if err := p.check(ctx); err != nil && before != nil {
			return err
		} else if err != nil {
			p.log.Error(unhealthy, "error", err)
		}
	}
	if before != nil {
		if err := c.succeededBy(s); err != nil {
			return err
		}
	}
	for _, p := range fresh {
		p.start()
	}
	c.current.Store(s)
	if before != nil { // not called by Load
		c.hasChanged()
		before.closeUnless(s)
	}
	for _, w := range s.warnings {
		c.log.Warn(w)
	}
	return nil
}

// succeededBy returns an error if other settings cannot decrypt what the current ones encrypt: at
// least the latest writes must not be lost.
func (c *Config) succeededBy(s *settings) error {
	next := &Config{file: c.file}
	next.current.Store(s)
	kinds := map[schema.GroupResource]bool{{Group: "example.com", Resource: "others"}: true}
	for _, chains := range []map[schema.GroupResource]chain{c.current.Load().chains, s.chains} {
		for r := range chains {
			if r.Resource == "*" {
				r.Resource = "others"
			}
			if r.Group == "*" {
				r.Group = "example.com"
			}
			kinds[r] = true
		}
	}
	for r := range kinds {
		l := &c.current.Load().chain(r)[0]
		if l.provider != nil && slices.ContainsFunc(s.chain(r), func(n lock) bool { return n.provider == l.provider }) {
			continue // whether its plugin is healthy or not
		}
		key := object.Key{Resource: r, Namespace: "default", Name: "probe"}
		at := place{Registry, key, c.paths}
		sealed, err := l.probe(at, []byte(`{"metadata":{"name":"probe","namespace":"default","uid":"probe"}}`))
		if err != nil {
			return err
		}
		if sealed == nil {
			continue
		}
		if _, _, err := next.open(at, sealed); err != nil {
			return fmt.Errorf("objects of %s that are stored now could no longer be read: keep the provider that wrote them after the new one until all of them have been rewritten: %w", r, err)
		}
	}
	return nil
}
