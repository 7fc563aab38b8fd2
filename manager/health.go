package manager

import (
	"fmt"
	"maps"
	"net/http"
	"strings"
	"sync"

	"github.com/kapok-dev/kapok/manager/healthz"

	"github.com/go-logr/logr"
)

// A Checker returns an error if a component is unhealthy: see package healthz.
type Checker = healthz.Checker

// Ping is the Checker that always succeeds.
func Ping(r *http.Request) error { return healthz.Ping(r) }

// checks is a set of Checkers. Checkers can be added while they are served.
type checks struct {
	logger logr.Logger

	mu     sync.Mutex
	byName map[string]Checker
}

func (c *checks) add(name string, check Checker) error {
	if name == "" || strings.Contains(name, "/") || check == nil {
		return fmt.Errorf("check %q: want a name without slashes, and a Checker that is not nil", name)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byName == nil {
		c.byName = map[string]Checker{}
	}
	c.byName[name] = check
	return nil
}

func (c *checks) all() map[string]Checker {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.byName)
}

func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := healthz.Handler{Checks: c.all()}
	h.ServeHTTP(w, r.WithContext(logr.NewContext(r.Context(), c.logger)))
}
