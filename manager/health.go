package manager

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
)

// A Checker says what is wrong, or nothing. It must be safe for use by several goroutines, and should end with the request.
// One that panics has failed.
type Checker func(*http.Request) error

// call calls the Checker, which fails if it panics.
func (c Checker) call(r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c(r)
}

// Ping is the Checker that always finds everything well.
func Ping(*http.Request) error { return nil }

// checks serves Checkers as the API server does: all at the root, with ?verbose one a line, without those of ?exclude=NAME;
// and each at its name. Without any, there is ping.
type checks struct {
	logger logr.Logger

	mu     sync.Mutex
	byName map[string]Checker
}

func (c *checks) add(name string, check Checker) error {
	if name == "" || strings.Contains(name, "/") || check == nil {
		return fmt.Errorf("a check needs a name without slashes, and a function: %q", name)
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
	if len(c.byName) == 0 {
		return map[string]Checker{"ping": Ping}
	}
	return maps.Clone(c.byName)
}

func (c *checks) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all, name := c.all(), strings.Trim(r.URL.Path, "/")
	if name == "" {
		c.serveAll(w, r, all)
		return
	}
	check := all[name]
	if check == nil {
		http.NotFound(w, r)
		return
	}
	if err := check.call(r); err != nil {
		http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "ok")
}

func (c *checks) serveAll(w http.ResponseWriter, r *http.Request, all map[string]Checker) {
	query := r.URL.Query()
	var lines, failed []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(query["exclude"], name) {
			lines = append(lines, "[+]"+name+" excluded: ok")
		} else if err := all[name].call(r); err != nil {
			lines = append(lines, "[-]"+name+" failed: reason withheld") // as everybody may ask
			failed = append(failed, name)
			c.logger.Info("Health check failed", "check", name, "error", err.Error())
		} else {
			lines = append(lines, "[+]"+name+" ok")
		}
	}
	for _, name := range query["exclude"] {
		if all[name] == nil {
			lines = append(lines, fmt.Sprintf("warn: some health checks cannot be excluded: no matches for %q", name))
		}
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	switch {
	case len(failed) > 0:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s\nhealthz check failed\n", strings.Join(lines, "\n"))
	case query.Has("verbose"):
		fmt.Fprintf(w, "%s\nhealthz check passed\n", strings.Join(lines, "\n"))
	default:
		fmt.Fprint(w, "ok")
	}
}
