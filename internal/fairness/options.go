package fairness

import (
	"cmp"
	"errors"

	"github.com/kapok-dev/kapok/internal/state"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Options bound concurrent requests, their memory, and watches.
type Options struct {
	// MaxRequestsInFlight is the maximum number of concurrent reads, and
	// MaxMutatingRequestsInFlight that of writes. Priority levels share their sum. Defaults: those
	// of kube-apiserver, 400 and 200. A negative value counts as zero in this sum; with Unfair it
	// means that there is no limit.
	MaxRequestsInFlight, MaxMutatingRequestsInFlight int

	// Unfair serves requests in the order of their arrival, within these two bounds, and ignores
	// FlowSchemas and PriorityLevelConfigurations. Members of system:masters have no bound then.
	Unfair bool

	// MaxRequestMemory is the maximum number of bytes of memory that large requests take together, as
	// estimated from their bodies. Requests beyond it wait, or get 429; a single request that would
	// take more gets 413. Default: a quarter of the process's memory limit (GOMEMLIMIT), at least 128
	// MiB; 256 MiB without a limit.
	MaxRequestMemory int64

	// MaxWatchesPerUser is the maximum number of open watches of one user; members of system:masters
	// have no bound. Default 10,000; negative means no bound.
	MaxWatchesPerUser int
}

// Validate returns an error if there are no requests that priority levels could share.
func (o *Options) Validate() error {
	if !o.Unfair && o.MaxRequestsInFlight < 0 && o.MaxMutatingRequestsInFlight < 0 {
		return errors.New("Options.Fairness.MaxRequestsInFlight and MaxMutatingRequestsInFlight are negative but Unfair is not set: set one of the three")
	}
	return nil
}

// The defaults of Options.
const (
	DefaultReading        = 400
	DefaultWriting        = 200
	DefaultWatchesPerUser = 10_000
)

// Config contains the dependencies of a Limiter, and its options. Zero values mean the defaults.
type Config struct {
	Options
	// State contains the FlowSchemas and PriorityLevelConfigurations. Default: none, and the default
	// objects of Kubernetes apply.
	State *state.State
	// Size returns the number of objects of a resource and their bytes, by which lists are
	// estimated. Default: those of the State, or all lists are short.
	Size func(schema.GroupResource) (objects int, bytes int64)
}

func (c Config) withDefaults() Config {
	c.MaxRequestsInFlight = cmp.Or(c.MaxRequestsInFlight, DefaultReading)
	c.MaxMutatingRequestsInFlight = cmp.Or(c.MaxMutatingRequestsInFlight, DefaultWriting)
	c.MaxWatchesPerUser = cmp.Or(c.MaxWatchesPerUser, DefaultWatchesPerUser)
	if c.Size == nil && c.State != nil {
		c.Size = c.State.Size
	}
	return c
}
