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

// Paths that Kubernetes does not have, for administrators. They are not resources.
const (
	pathSnapshot = "/kapok/v1/snapshot" // all objects, as package snapshot writes them
	pathDoctor   = "/kapok/v1/doctor"   // a report of package doctor, as JSON
)

// contentTypeSnapshot is the media type of a snapshot.
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

// syncTimeout limits how long a snapshot waits for commits of other servers.
const syncTimeout = 10 * time.Second

// snapshot streams all objects at one revision, while the server goes on serving. A response that
// breaks off has no checksum, and is rejected when it is read.
func (c *call) snapshot() {
	st := c.h.store.State()
	ctx, cancel := c.context(syncTimeout)
	defer cancel()
	switch _, err := st.Sync(ctx); {
	case errors.Is(err, journal.ErrClosed):
		c.fail(apierrors.NewServiceUnavailable(err.Error()))
		return
	case err != nil:
		// A backup is wanted most when the journal cannot synchronize: send one that names what it
		// may lack.
		c.warn(fmt.Sprintf("the newest writes may be missing: %v", err))
	}
	revision, objects := snapshot.Of(st)
	header := snapshot.Header{Revision: revision, Time: time.Now().UTC(), Kubernetes: c.h.opts.Version.GitVersion}
	c.w.Header().Set("Content-Type", contentTypeSnapshot)
	c.w.Header().Set("Content-Disposition", fmt.Sprintf(`attachment; filename="kapok-%d.snapshot"`, revision))
	c.w.WriteHeader(http.StatusOK)
	if err := snapshot.Write(&c.w, header, objects); err != nil {
		if c.r.Context().Err() == nil {
			c.h.log.Error("snapshot aborted", "revision", revision, "error", err)
		}
		panic(http.ErrAbortHandler)
	}
}

// doctor responds with a report on what is wrong with the store and with the files of the server.
func (c *call) doctor() {
	st := c.h.store.State()
	report, err := doctor.Examine(c.r.Context(), st)
	if ailment := st.Health(); err == nil && ailment != nil {
		report.Add(doctor.Problem{Text: ailment.Error()})
	}
	if err == nil && c.h.opts.Ailments != nil {
		for _, ailment := range c.h.opts.Ailments() {
			report.Add(doctor.Problem{Text: ailment})
		}
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
