package endpoint

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Check is a health check of one part of the server.
type Check struct {
	Name string
	// Run returns nil if the part is healthy. It may be called concurrently.
	Run func(*http.Request) error
	// ReadyOnly limits the check to /readyz: a failure does not require a restart.
	ReadyOnly bool
	// NotLive excludes the check from /livez, for the same reason.
	NotLive bool
}

var healthPaths = [...]string{"healthz", "livez", "readyz"}

// checks returns the checks behind a health path. ping and log come first and never fail: clients
// expect them. The check for shutdown comes last.
func (h *Handler) checks(path string) []Check {
	well := func(*http.Request) error { return nil }
	all := []Check{{Name: "ping", Run: well}, {Name: "log", Run: well}}
	for _, check := range h.opts.Checks {
		if check.ReadyOnly && path != "readyz" || check.NotLive && path == "livez" {
			continue
		}
		all = append(all, check)
	}
	if path == "readyz" {
		all = append(all, Check{Name: "shutdown", Run: h.ends})
	}
	return all
}

// ends returns an error once the shutdown has begun.
func (h *Handler) ends(*http.Request) error {
	if h.retired.Load() || h.isEnding() {
		return errors.New("process is shutting down")
	}
	return nil
}

// health serves /healthz, /livez and /readyz, and single checks below them. It
// returns false for other paths.
func (c *call) health() bool {
	path, name, single := strings.Cut(strings.TrimPrefix(c.info.Path, "/"), "/")
	if !slices.Contains(healthPaths[:], path) {
		return false
	}
	checks := c.h.checks(path)
	if !single {
		c.allChecks(path, checks)
		return true
	}
	for _, check := range checks {
		if check.Name != name {
			continue
		}
		if err := check.Run(c.r); err != nil {
			http.Error(&c.w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
		} else {
			_, _ = fmt.Fprint(&c.w, "ok")
		}
		return true
	}
	return false
}

func (c *call) allChecks(path string, checks []Check) {
	query := c.r.URL.Query()
	excluded := query["exclude"]
	unknown := slices.Clone(excluded)
	var report bytes.Buffer
	failed := false
	for _, check := range checks {
		if slices.Contains(excluded, check.Name) {
			unknown = slices.DeleteFunc(unknown, func(name string) bool { return name == check.Name })
			fmt.Fprintf(&report, "[+]%s excluded: ok\n", check.Name)
			continue
		}
		if err := check.Run(c.r); err != nil {
			// Unauthenticated users can read this page, so only the log has the reason.
			c.h.log.Warn("health check failed", "path", path, "check", check.Name, "error", err)
			fmt.Fprintf(&report, "[-]%s failed: reason withheld\n", check.Name)
			failed = true
			continue
		}
		fmt.Fprintf(&report, "[+]%s ok\n", check.Name)
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		for i, name := range unknown {
			unknown[i] = fmt.Sprintf("%q", name)
		}
		fmt.Fprintf(&report, "warn: some health checks cannot be excluded: no matches for %s\n", strings.Join(slices.Compact(unknown), ","))
	}
	if failed {
		http.Error(&c.w, fmt.Sprintf("%s%s check failed", report.String(), path), http.StatusInternalServerError)
		return
	}
	c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	c.w.Header().Set("X-Content-Type-Options", "nosniff")
	if _, verbose := query["verbose"]; !verbose {
		_, _ = fmt.Fprint(&c.w, "ok")
		return
	}
	fmt.Fprintf(&report, "%s check passed\n", path)
	_, _ = report.WriteTo(&c.w)
}
