package endpoint

import (
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/kapok-dev/kapok/internal/doctor"
	"github.com/kapok-dev/kapok/internal/journal"
	"github.com/kapok-dev/kapok/internal/snapshot"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Paths of Kapok's own, for administrators. They are no resources: Kubernetes has
// nothing of the kind.
const (
	pathSnapshot = "/kapok/v1/snapshot" // all objects, as package snapshot writes them
	pathDoctor   = "/kapok/v1/doctor"   // a report of package doctor, as JSON
)

// contentTypeSnapshot is what a snapshot is called.
const contentTypeSnapshot = "application/vnd.kapok.snapshot"

// administer serves the paths below /kapok/.
func (c *call) administer() {
	var serve func()
	switch c.info.Path {
	case pathSnapshot:
		serve = c.snapshot
	case pathDoctor:
		serve = c.doctor
	default:
		c.notFound()
		return
	}
	if c.r.Method != http.MethodGet {
		c.w.Header().Set("Allow", http.MethodGet)
		c.fail(methodNotAllowed())
		return
	}
	serve()
}

// syncTimeout is how long a snapshot waits for what others have committed.
const syncTimeout = 10 * time.Second

// snapshot streams all objects as they are at one revision, while the server
// serves. An answer that breaks off has no checksum, and is no snapshot.
func (c *call) snapshot() {
	st := c.h.store.State()
	ctx, cancel := c.context(syncTimeout)
	defer cancel()
	switch _, err := st.Sync(ctx); {
	case errors.Is(err, journal.ErrClosed):
		c.fail(apierrors.NewServiceUnavailable(err.Error()))
		return
	case err != nil:
		// That is when a backup is wanted most: better one that says what it may lack.
		c.warn(fmt.Sprintf("the newest writes may be missing: %v", err))
	}
	revision, objects := snapshot.Of(st)
	header := snapshot.Header{Revision: revision, Time: time.Now().UTC(), Kubernetes: c.h.opts.Version.GitVersion}
	c.w.Header().Set("Content-Type", contentTypeSnapshot)
	c.w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="kapok-%d.snapshot"`, revision))
	c.w.WriteHeader(http.StatusOK)
	if err := snapshot.Write(&c.w, header, objects); err != nil {
		if c.r.Context().Err() == nil {
			c.h.log.Error("snapshot broken off", "revision", revision, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}

// doctor answers with what is wrong with the store.
func (c *call) doctor() {
	st := c.h.store.State()
	report, err := doctor.Examine(c.r.Context(), st)
	if ailment := st.Health(); err == nil && ailment != nil {
		report.Add(doctor.Problem{Text: ailment.Error()})
	}
	switch {
	case errors.Is(err, journal.ErrClosed):
		c.fail(apierrors.NewServiceUnavailable(err.Error()))
	case err != nil:
		c.fail(err)
	default:
		c.rawJSON(http.StatusOK, report)
	}
}
