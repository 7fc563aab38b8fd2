package shards

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// Label is the label of the Leases of members. Its value is Options.Name.
const Label = "kapok.dev/shards"

// MembersAnnotation is the annotation in which a Lease shows the set of members that its member
// divides the keys with.
const MembersAnnotation = "kapok.dev/shards-members"

// Options configure a member. All members of a group must have the same, except for Identity.
type Options struct {
	// Namespace of the Leases. Required.
	Namespace string
	// Name of the group, and the prefix of the names of its Leases. Required.
	Name string
	// Identity is shown as the holder of the Lease. Default: the name of the host and a random uid.
	Identity string
	// LeaseDuration is the time after the last observed renewal of a member at which the other
	// members replace it. Default 15 s.
	LeaseDuration time.Duration
	// RenewDeadline is the time without a renewal after which a member stops its work, and the time
	// in which stopped work must end before the member gives up its Lease. It must be less than
	// LeaseDuration. Default 10 s.
	RenewDeadline time.Duration
	// RetryPeriod is the time between two renewals. It must be less than half of RenewDeadline.
	// Default 2 s.
	RetryPeriod time.Duration
	// Logger logs the members. Default: none.
	Logger logr.Logger
}

// Work works with a set of members until ctx ends, and returns after everything that it has started
// has ended. Its requests must use cfg, which belongs to it. It is called again, also after an
// error, for each other set.
type Work func(ctx context.Context, cfg *rest.Config, owns Owns) error

// Run is a member until ctx ends, and then returns nil, after it has deleted its Lease. It returns
// an error for invalid options, and the result of work if that ends before its context.
func Run(ctx context.Context, cfg *rest.Config, o Options, work Work) error {
	if err := o.complete(); err != nil {
		return fmt.Errorf("shards: %w", err)
	}
	leases, err := coordinationv1client.NewForConfig(cfg)
	if err != nil {
		return fmt.Errorf("shards: %w", err)
	}
	m := &member{opts: o, cfg: cfg, leases: leases.Leases(o.Namespace), work: work, seen: map[string]observation{}}
	return m.run(ctx)
}

func (o *Options) complete() error {
	if o.Namespace == "" || o.Name == "" {
		return errors.New("Options.Namespace and Options.Name must be set")
	}
	if problems := validation.IsValidLabelValue(o.Name); len(problems) > 0 {
		return fmt.Errorf("Options.Name %q: %s", o.Name, problems[0])
	}
	if o.Identity == "" {
		host, err := os.Hostname()
		if err != nil {
			return fmt.Errorf("name of this process: %w", err)
		}
		o.Identity = host + "_" + string(uuid.NewUUID())
	}
	o.LeaseDuration = cmp.Or(o.LeaseDuration, 15*time.Second)
	o.RenewDeadline = cmp.Or(o.RenewDeadline, 10*time.Second)
	o.RetryPeriod = cmp.Or(o.RetryPeriod, 2*time.Second)
	if o.RetryPeriod <= 0 || o.RenewDeadline <= 2*o.RetryPeriod || o.LeaseDuration <= o.RenewDeadline {
		return fmt.Errorf("LeaseDuration %v, RenewDeadline %v, RetryPeriod %v: want LeaseDuration > RenewDeadline > 2 * RetryPeriod > 0",
			o.LeaseDuration, o.RenewDeadline, o.RetryPeriod)
	}
	if o.Logger.GetSink() == nil {
		o.Logger = logr.Discard()
	}
	return nil
}
