package bench

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mark is the label of all objects that a run installs; its value is the run's id.
const mark = "kapok.dev/bench"

const (
	definitionsPath = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
	namespacesPath  = "/api/v1/namespaces"
)

// identify reads the server's version.
func (r *run) identify(ctx context.Context) error {
	var version struct {
		GitVersion string `json:"gitVersion"`
	}
	err := r.shared.get(ctx, "/version", &version)
	var refused *refusal
	switch {
	case errors.As(err, &refused) && refused.code == http.StatusUnauthorized:
		return fmt.Errorf("%s does not accept the credentials: use a kubeconfig of this server: %w", r.dialler.host, err)
	case errors.As(err, &refused):
		return fmt.Errorf("%s is not a Kubernetes API server, or does not serve /version: %w", r.dialler.host, err)
	case err != nil:
		return fmt.Errorf("no server at %s: %w", r.dialler.host, err)
	}
	r.result.Server.Version = version.GitVersion
	return nil
}

// install creates the namespace and the kind of the run. Its requests are not cancelled, because
// the run must know what it has to remove.
func (r *run) install(ctx context.Context) error {
	namespace := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q,"labels":{%q:%q}}}`, r.namespace, mark, r.id)
	for _, object := range []struct {
		what, path, body string
		made             *bool
	}{
		{"namespaces", namespacesPath, namespace, &r.made.namespace},
		{"CustomResourceDefinitions of apiextensions.k8s.io/v1", definitionsPath, r.kind.definition(r.id), &r.made.definitions},
	} {
		err := r.shared.do(context.WithoutCancel(ctx), request{method: "POST", path: object.path, contentType: asJSON, body: object.body})
		var refused *refusal
		*object.made = !errors.As(err, &refused) // without a response, it may exist
		switch {
		case refusedWith(err, http.StatusForbidden):
			return fmt.Errorf("the user of the kubeconfig must be allowed to create and delete %s: %w", object.what, err)
		case refusedWith(err, http.StatusNotFound):
			return fmt.Errorf("the server serves no %s, which the load requires: %w", object.what, err)
		case err != nil:
			return err
		}
	}
	return r.await(ctx, r.objects+"?limit=1")
}

// await waits until a path is served. Before that the server returns 404, or 429 with a Retry-After
// of a second while it prepares the storage. await retries more often than that, because it
// measures the time until the first success.
func (r *run) await(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	for pause := 2 * time.Millisecond; ; pause = min(2*pause, 100*time.Millisecond) {
		err := r.shared.do(ctx, request{method: "GET", path: path, impatient: true})
		var refused *refusal
		if !errors.As(err, &refused) || !slices.Contains([]int{http.StatusNotFound, http.StatusTooManyRequests, http.StatusServiceUnavailable}, refused.code) {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return fmt.Errorf("the definition was created, but its kind is not served: %w", err)
		}
	}
}

// Removal gives up after these times. A server without a namespace controller never deletes a
// namespace.
const (
	definitionsLeave = 5 * time.Minute
	namespaceLeaves  = 15 * time.Second
)

// remove deletes what the run has installed, even if the run's context has ended: first the kinds
// with all their objects, then the namespace.
func (r *run) remove(ctx context.Context) error {
	ctx = context.WithoutCancel(ctx)
	var errs []error
	if r.made.definitions {
		errs = append(errs, r.removeDefinitions(ctx))
	}
	if r.made.namespace {
		errs = append(errs, r.removeNamespace(ctx))
	}
	if err := errors.Join(errs...); err != nil {
		return &LeftError{r.id, err}
	}
	return nil
}

// A LeftError reports that some objects of a run could not be removed.
type LeftError struct {
	id  string
	err error
}

// Error returns the command that removes the objects, and the cause.
func (e *LeftError) Error() string {
	return fmt.Sprintf("some objects are left: remove them with kubectl delete namespaces,customresourcedefinitions -l %s=%s: %v", mark, e.id, e.err)
}

// Unwrap returns the cause.
func (e *LeftError) Unwrap() error { return e.err }

func (r *run) removeNamespace(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, namespaceLeaves)
	defer cancel()
	for {
		err := r.shared.do(ctx, request{method: "DELETE", path: namespacesPath + "/" + r.namespace})
		switch {
		case refusedWith(err, http.StatusNotFound):
			return nil
		case err != nil && !refusedWith(err, http.StatusConflict): // a conflict means that it is being deleted
			return err
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			r.note("namespace %s is empty, but its deletion has not ended", r.namespace)
			return nil
		}
	}
}

func (r *run) removeDefinitions(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, definitionsLeave, fmt.Errorf("definitions still exist after %v", definitionsLeave))
	defer cancel()
	mine := definitionsPath + "?labelSelector=" + url.QueryEscape(mark+"="+r.id)
	if err := r.shared.do(ctx, request{method: "DELETE", path: mine}); err != nil {
		return err
	}
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		var left metav1.PartialObjectMetadataList
		if err := r.shared.get(ctx, mine+"&limit=1", &left); err != nil || len(left.Items) == 0 {
			return err
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
