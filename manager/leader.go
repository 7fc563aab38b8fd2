package manager

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"os"
	"strconv"
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

// ErrLeaderElectionLost is the error of Start when another process may hold the Lease.
var ErrLeaderElectionLost = errors.New("leader election lost")

// namespaceFile is the file with the namespace of the pod.
const namespaceFile = "/var/run/secrets/kubernetes.io/serviceaccount/namespace"

// newLock returns the lock on the Lease that elects a leader.
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
	// A request that hangs must not use up the time of the next one.
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

// A term is a lock that watches for a change of the holder. Its methods that write are called by
// the elector's goroutine only.
type term struct {
	resourcelock.Interface
	lease time.Duration
	end   context.CancelFunc // of the elector; set before it runs

	held  bool
	until time.Time // no other process can hold the Lease before; read only after the elector has ended
}

// Get returns an error if another process holds the Lease that this process held, because the Lease
// was deleted or edited, or because this process was suspended. The elector alone would go on until
// its deadline.
//
// The elector compares the second result with that of its last call, to see whether the holder has
// renewed the Lease. In the record, the time of the renewal is rounded to a second: so a holder
// that renews three times a second would appear to do nothing for a second, and lose a Lease of a
// second.
func (t *term) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := t.Interface.Get(ctx)
	if err == nil && t.held && record.HolderIdentity != "" && record.HolderIdentity != t.Identity() {
		t.until = time.Time{}
		t.end()
		return nil, nil, fmt.Errorf("%w: its holder is %s", ErrLeaderElectionLost, record.HolderIdentity)
	}
	if err == nil {
		raw = strconv.AppendInt(raw, record.RenewTime.UnixNano(), 10)
	}
	return record, raw, err
}

func (t *term) Create(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	record.LeaseDurationSeconds = t.seconds()
	return t.hold(time.Now(), t.Interface.Create(ctx, record))
}

func (t *term) Update(ctx context.Context, record resourcelock.LeaderElectionRecord) error {
	record.LeaseDurationSeconds = t.seconds()
	return t.hold(time.Now(), t.Interface.Update(ctx, record))
}

// seconds is the duration in the Lease, by which other processes go. It is rounded up: rounded
// down, as the elector does, it would end before until.
func (t *term) seconds() int { return int(math.Ceil(t.lease.Seconds())) }

// hold records a write of the elector. The elector writes no other holder than itself.
func (t *term) hold(since time.Time, err error) error {
	if err == nil {
		t.held, t.until = true, since.Add(t.lease)
	}
	return err
}

// An election is the manager's part in a leader election. It owns the goroutine that renews the
// Lease.
type election struct {
	lock     resourcelock.Interface
	term     *term // the lock, as the elector sees it
	elector  *leaderelection.LeaderElector
	logger   logr.Logger
	patience time.Duration // of the last request
	release  bool          // the Lease at stop

	elected func() // of start
	cancel  context.CancelFunc
	done    chan struct{} // closed when the elector has ended
	lost    chan struct{} // closed when it ended without stop
}

// newElection returns an election that has not started.
func newElection(lock resourcelock.Interface, opts *Options) (*election, error) {
	e := &election{lock: lock, term: &term{Interface: lock, lease: *opts.LeaseDuration}, logger: opts.Logger.WithName("leaderelection"),
		patience: *opts.RenewDeadline, release: !opts.LeaderElectionKeepOnCancel, done: make(chan struct{}), lost: make(chan struct{})}
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

// start joins the election. It calls elected when the Lease is acquired, and lost when the Lease
// may have been lost for another reason than stop.
func (e *election) start(ctx context.Context, elected, lost func()) {
	e.elected = elected
	ctx, e.cancel = context.WithCancel(logr.NewContext(ctx, e.logger))
	inner, end := context.WithCancel(ctx) // also ends without stop
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

// lostUntil reports whether the Lease is lost, and the time before which no other process can hold
// it: the zero time if one holds it already.
func (e *election) lostUntil() (until time.Time, lost bool) {
	select {
	case <-e.lost:
		return e.term.until, true
	default:
		return time.Time{}, false
	}
}

// stop leaves the election. It releases the Lease only if the work under it has ended; otherwise no
// other process may lead before the Lease expires. A lost Lease is not released.
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
		e.logger.Info("The lease is not released and expires, because Runnables are still running")
		return
	}
	if err := e.giveUp(); err != nil {
		e.logger.Error(err, "Cannot release the lease")
	}
}

// giveUp releases the Lease if this process still holds it. The elector's own release does not
// check whether the work has ended.
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
