package manager

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/client-go/util/retry"
)

// ErrLeaderElectionLost is what Start fails with when another process may hold the lease.
var ErrLeaderElectionLost = errors.New("leader election lost")

// namespaceFile is where a pod finds its namespace.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// newLock makes the Lease that elects a leader.
func newLock(cfg *rest.Config, hc *http.Client, opts *Options, recorder record.EventRecorder) (resourcelock.Interface, error) {
	if opts.LeaderElectionID == "" {
		return nil, errors.New("leader election: LeaderElectionID must be set")
	}
	namespace := opts.LeaderElectionNamespace
	if namespace == "" {
		text, err := os.ReadFile(namespaceFile)
		if err != nil {
			return nil, fmt.Errorf("leader election: LeaderElectionNamespace must be set outside of a cluster: %w", err)
		}
		namespace = strings.TrimSpace(string(text))
	}
	host, err := os.Hostname()
	if err != nil {
		return nil, fmt.Errorf("leader election: name of this process: %w", err)
	}
	// A request that hangs must not take the time of the next.
	impatient := &http.Client{Transport: hc.Transport, Timeout: *opts.RenewDeadline / 2}
	leases, err := coordinationv1client.NewForConfigAndClient(cfg, impatient)
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return &resourcelock.LeaseLock{
		LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: opts.LeaderElectionID},
		Client:     leases,
		LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID()), EventRecorder: recorder},
		Labels:     opts.LeaderElectionLabels,
	}, nil
}

// A term is a lock that keeps an eye on the holder. Of its methods, only the elector's goroutine calls those that write.
type term struct {
	resourcelock.Interface
	lease time.Duration
	end   context.CancelFunc // of the elector; set before it runs

	held  bool
	until time.Time // nobody else can hold the lease before; only for who knows that the elector has ended
}

// Get fails if somebody else holds the lease that was ours: because it was deleted or edited, or because this process was stopped for
// a while. The elector would go on until its deadline.
func (t *term) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := t.Interface.Get(ctx)
	if err == nil && t.held && record.HolderIdentity != "" && record.HolderIdentity != t.Identity() {
		t.until = time.Time{}
		t.end()
		return nil, nil, fmt.Errorf("%w: its holder is %s", ErrLeaderElectionLost, record.HolderIdentity)
	}
	return record, raw, err
}

func (t *term) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return t.hold(time.Now(), t.Interface.Create(ctx, record))
}

func (t *term) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	return t.hold(time.Now(), t.Interface.Update(ctx, record))
}

// hold notes a write of the elector, which writes nobody but itself as the holder.
func (t *term) hold(since time.Time, err error) error {
	if err == nil {
		t.held, t.until = true, since.Add(t.lease)
	}
	return err
}

// An election is the part of a manager in the election of a leader. It owns the goroutine that renews the lease.
type election struct {
	lock     resourcelock.Interface
	term     *term // the lock, as the elector sees it
	elector  *leaderelection.LeaderElector
	logger   logr.Logger
	patience time.Duration // for the last request
	release  bool          // the lease when it stops

	elected func() // of start
	cancel  context.CancelFunc
	done    chan struct{} // closed when the elector has ended
	lost    chan struct{} // closed when that was not because of stop
}

// newElection prepares an election.
func newElection(lock resourcelock.Interface, opts *Options) (*election, error) {
	e := &election{lock: lock, term: &term{Interface: lock, lease: *opts.LeaseDuration}, logger: opts.Logger.WithName("leaderelection"),
		patience: *opts.RenewDeadline, release: *opts.LeaderElectionReleaseOnCancel, done: make(chan struct{}), lost: make(chan struct{})}
	var err error
	e.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: e.term, Name: opts.LeaderElectionID,
		LeaseDuration: *opts.LeaseDuration, RenewDeadline: *opts.RenewDeadline, RetryPeriod: *opts.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { e.elected() },
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return nil, fmt.Errorf("leader election: %w", err)
	}
	return e, nil
}

// start takes part. elected is called when the lease is held, lost when it may be no longer, if that is not because of stop.
func (e *election) start(ctx context.Context, elected, lost func()) {
	e.elected = elected
	ctx, e.cancel = context.WithCancel(logr.NewContext(ctx, e.logger))
	inner, end := context.WithCancel(ctx) // which ends without our stop, too
	e.term.end = end
	go func() {
		defer close(e.done)
		defer end()
		e.elector.Run(inner)
		if ctx.Err() == nil {
			close(e.lost)
			lost()
		}
	}()
}

// lostUntil says whether the lease is lost, and if so, until when nobody else can hold it: the zero time if somebody does already.
func (e *election) lostUntil() (until time.Time, lost bool) {
	select {
	case <-e.lost:
		return e.term.until, true
	default:
		return time.Time{}, false
	}
}

// stop leaves. The lease is released only if the work that it guards has ended: otherwise nobody else may start before it runs out.
// A lease that is lost is no longer ours to release.
func (e *election) stop(workEnded bool) {
	if e.cancel == nil {
		return
	}
	e.cancel()
	<-e.done
	if _, lost := e.lostUntil(); lost || !e.release || !e.elector.IsLeader() {
		return
	}
	if !workEnded {
		e.logger.Info("The lease is left to run out, as not everything has ended")
		return
	}
	if err := e.giveUp(); err != nil {
		e.logger.Error(err, "Cannot release the lease")
	}
}

// giveUp releases the lease, if it is still ours. The elector could do so, but does not ask whether the work has ended.
func (e *election) giveUp() error {
	ctx, cancel := context.WithTimeout(context.Background(), e.patience)
	defer cancel()
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		held, _, err := e.lock.Get(ctx)
		if err != nil || held.HolderIdentity != e.lock.Identity() {
			return err
		}
		now := metav1.Now()
		return e.lock.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: held.LeaderTransitions, LeaseDurationSeconds: 1, AcquireTime: now, RenewTime: now})
	})
}
