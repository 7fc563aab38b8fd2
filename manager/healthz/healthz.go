// Package healthz serves checks of health over HTTP, in the form in which API servers do.
package healthz

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-logr/logr"
)

// A Checker returns an error if the check fails. It must be safe for concurrent use, and should
// return when the context of the request ends. A Checker that panics has failed.
type Checker func(*http.Request) error

// Ping is the Checker that never fails.
var Ping Checker = func(*http.Request) error { return nil }

// Check calls the Checker. A panic is an error.
func (c Checker) Check(r *http.Request) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("panic: %v", p)
		}
	}()
	return c(r)
}

// A Handler serves Checks: all of them at its root, without those of ?exclude=NAME, and each at
// /NAME. The response is 200 or 500; with ?verbose, or after a failure, it has a line for each
// check. Without any Checks there is ping. The path of the request must be relative to the Handler:
// see http.StripPrefix. Errors are logged by the logger of the request's context, and not sent to
// clients.
type Handler struct {
	Checks map[string]Checker
}

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	all, name := h.Checks, strings.Trim(r.URL.Path, "/")
	if len(all) == 0 {
		all = map[string]Checker{"ping": Ping}
	}
	if name == "" {
		serveAll(w, r, all)
		return
	}
	check := all[name]
	if check == nil {
		http.NotFound(w, r)
		return
	}
	CheckHandler{Checker: check}.ServeHTTP(w, r)
}

// CheckHandler serves one Checker.
type CheckHandler struct {
	Checker
}

// ServeHTTP implements http.Handler.
func (h CheckHandler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if err := h.Check(r); err != nil {
		http.Error(w, fmt.Sprintf("internal server error: %v", err), http.StatusInternalServerError)
		return
	}
	fmt.Fprint(w, "ok")
}

func serveAll(w http.ResponseWriter, r *http.Request, all map[string]Checker) {
	query := r.URL.Query()
	var lines []string
	failed := false
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if slices.Contains(query["exclude"], name) {
			lines = append(lines, "[+]"+name+" excluded: ok")
		} else if err := all[name].Check(r); err != nil {
			lines = append(lines, "[-]"+name+" failed: reason withheld") // the endpoint is not authenticated
			failed = true
			logr.FromContextOrDiscard(r.Context()).Info("Health check failed", "check", name, "error", err.Error())
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
	case failed:
		w.WriteHeader(http.StatusInternalServerError)
		fmt.Fprintf(w, "%s\nhealthz check failed\n", strings.Join(lines, "\n"))
	case query.Has("verbose"):
		fmt.Fprintf(w, "%s\nhealthz check passed\n", strings.Join(lines, "\n"))
	default:
		fmt.Fprint(w, "ok")
	}
}
